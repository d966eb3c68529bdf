"""What the analyses observe, one file each."""
