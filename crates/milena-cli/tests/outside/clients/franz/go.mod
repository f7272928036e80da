module milena/secured

// The version of Debian 12, and the newest franz-go that it compiles.
go 1.19

require github.com/twmb/franz-go v1.16.1

require (
	github.com/klauspost/compress v1.17.4 // indirect
	github.com/pierrec/lz4/v4 v4.1.19 // indirect
	github.com/twmb/franz-go/pkg/kmsg v1.7.0 // indirect
	golang.org/x/crypto v0.17.0 // indirect
)
