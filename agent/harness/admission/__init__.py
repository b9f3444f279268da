"""What a problem must refuse before it is asked, and what else a verified candidate handles."""
