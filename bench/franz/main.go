// Produces or consumes with franz-go.
//
//	franz produce ADDRESS TOPIC BYTES
//	franz consume ADDRESS TOPIC PARTITIONS RECORDS POLL_RECORDS TIMED
//	franz write ADDRESS TOPIC RECORDS VALUES VALUE_SIZE CODEC KEYS TUNED TIMED
package main

import (
	"log"
	"os"
	"strconv"
)

func main() {
	switch os.Args[1] {
	case "produce":
		produce(os.Args[2], os.Args[3], number(os.Args[4]))
	case "consume":
		consume(os.Args[2], os.Args[3], number(os.Args[4]), number(os.Args[5]), number(os.Args[6]), os.Args[7] != "0")
	case "write":
		write(writing{
			address: os.Args[2],
			topic:   os.Args[3],
			records: number(os.Args[4]),
			values:  values(os.Args[5], number(os.Args[6])),
			codec:   os.Args[7],
			keys:    number(os.Args[8]),
			// Nothing that was tried was a clear gain, so argument 9 changes nothing.
			timed: os.Args[10] != "0",
		})
	default:
		log.Fatalf("unknown: %s", os.Args[1])
	}
}

func number(text string) int {
	number, err := strconv.Atoi(text)
	if err != nil {
		log.Fatal(err)
	}
	return number
}
