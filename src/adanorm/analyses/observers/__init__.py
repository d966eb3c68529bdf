"""What the analyses observe, one file each; torch is needed here and not where records are shown."""
