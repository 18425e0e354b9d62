"""Sessions: conversations that outlive a run. Each is alone behind the `Session` port."""
