// Stock-client cases over IBM's Sarama. It speaks the versions of the Kafka that it is told to be with, so the cases run as
// with an old Kafka, a middle one and the newest that it knows.
//
//	sarama BOOTSTRAP
package main

import (
	"fmt"
	"os"
	"time"

	"github.com/IBM/sarama"
)

const caseTimeMax = 60 * time.Second

var kafkas = []sarama.KafkaVersion{sarama.V0_11_0_0, sarama.V2_1_0_0, sarama.MaxVersion}

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: sarama BOOTSTRAP")
		os.Exit(2)
	}
	passed, failed := 0, 0
	for _, kafka := range kafkas {
		c, err := connect(os.Args[1], kafka)
		if err != nil {
			fmt.Printf("FAILED          connecting as with %s: %v\n", kafka, err)
			failed++
			continue
		}
		for _, one := range cases {
			if !kafka.IsAtLeast(one.since) {
				continue
			}
			started := time.Now()
			err := inTime(func() error { return one.run(c) })
			seconds, name := time.Since(started).Seconds(), fmt.Sprintf("%s (%s)", one.name, kafka)
			if err != nil {
				failed++
				fmt.Printf("FAILED  %5.1f s  %s: %v\n", seconds, name, err)
			} else {
				passed++
				fmt.Printf("ok      %5.1f s  %s\n", seconds, name)
			}
		}
		c.close()
	}
	fmt.Printf("sarama: %d passed, %d failed\n", passed, failed)
	if failed > 0 {
		os.Exit(1)
	}
}

// inTime gives a case up that hangs: what it has begun goes on until the program ends.
func inTime(run func() error) error {
	done := make(chan error, 1)
	go func() { done <- run() }()
	select {
	case err := <-done:
		return err
	case <-time.After(caseTimeMax):
		return fmt.Errorf("not over after %v", caseTimeMax)
	}
}
