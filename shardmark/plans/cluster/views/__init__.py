"""What people see of a layout: words, a page, and pictures for notebooks."""
