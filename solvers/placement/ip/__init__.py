"""Integer programs for the greatest load, and the engines that solve them."""
