//! What a client knows of the cluster.
