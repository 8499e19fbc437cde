"""What tests share: starting targets, their facts before and after, compiled helpers, and leaving nothing behind."""
