"""Integer programs of the track ``intraop``, and the engines that solve them."""
