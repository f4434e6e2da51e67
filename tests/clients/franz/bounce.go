package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// bounce writes and reads until it is told to stop (tests/bounce.sh), saying five times a second how far it is.
//
//	franz bounce BOOTSTRAP TOPIC ZONE RECORDS_PER_SECOND
func bounce(bootstrap, topic, zone string, perSecond int) error {
	const partitions = 3
	from := map[int32]kgo.Offset{}
	for partition := range int32(partitions) {
		from[partition] = kgo.NewOffset().AtStart()
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	common := []kgo.Opt{kgo.SeedBrokers(strings.Split(bootstrap, ",")...), kgo.ClientID("franz,zone=" + zone), kgo.Rack(zone)}
	writer, err := kgo.NewClient(append(common, kgo.RecordPartitioner(kgo.RoundRobinPartitioner()))...)
	if err != nil {
		return err
	}
	defer writer.Close()
	if _, err := kadm.NewClient(writer).CreateTopic(ctx, partitions, 3, nil, topic); err != nil {
		return err
	}
	reader, err := kgo.NewClient(append(common, kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: from}))...)
	if err != nil {
		return err
	}
	defer reader.Close()

	var acked, read, failed atomic.Int64
	go func() {
		told := map[string]bool{}
		for {
			fetches := reader.PollFetches(context.Background())
			fetches.EachError(func(_ string, partition int32, err error) {
				failed.Add(1)
				if text := err.Error(); !told[text] {
					told[text] = true
					fmt.Fprintf(os.Stderr, "partition %d: %s\n", partition, text)
				}
			})
			read.Add(int64(fetches.NumRecords()))
		}
	}()
	go func() {
		for range time.Tick(200 * time.Millisecond) {
			fmt.Println(time.Now().UnixMilli(), acked.Load(), read.Load(), failed.Load())
		}
	}()
	tick := time.NewTicker(time.Second / time.Duration(perSecond))
	for sequence := 0; ctx.Err() == nil; sequence++ {
		record := &kgo.Record{Topic: topic, Value: fmt.Appendf(nil, "%d %0100d", sequence, 0)}
		writer.Produce(context.Background(), record, func(_ *kgo.Record, err error) {
			if err != nil {
				failed.Add(1)
			} else {
				acked.Add(1)
			}
		})
		select {
		case <-tick.C:
		case <-ctx.Done():
		}
	}
	patience, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := writer.Flush(patience); err != nil {
		return err
	}
	for read.Load() < acked.Load() && patience.Err() == nil {
		time.Sleep(50 * time.Millisecond)
	}
	fmt.Println(time.Now().UnixMilli(), acked.Load(), read.Load(), failed.Load())
	return nil
}

// bounceArguments are those behind the word itself.
func bounceArguments(arguments []string) error {
	var perSecond int
	if len(arguments) != 4 {
		return fmt.Errorf("usage: bounce BOOTSTRAP TOPIC ZONE RECORDS_PER_SECOND")
	}
	if _, err := fmt.Sscan(arguments[3], &perSecond); err != nil || perSecond < 1 {
		return fmt.Errorf("%s is no rate", arguments[3])
	}
	return bounce(arguments[0], arguments[1], arguments[2], perSecond)
}

func runBounce() {
	if err := bounceArguments(os.Args[2:]); err != nil {
		fmt.Fprintln(os.Stderr, "franz:", err)
		os.Exit(1)
	}
}
