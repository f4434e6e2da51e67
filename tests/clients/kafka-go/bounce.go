package main

import (
	"context"
	"errors"
	"fmt"
	"os/signal"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/segmentio/kafka-go"
)

// bounce writes and reads until it is told to stop (tests/bounce.sh), saying five times a second how far it is. This
// client knows no rack for readers of assigned partitions: the zone in its id is all it says.
func bounce(bootstrap, topic, zone string, perSecond int) error {
	const partitions, writers = 3, 8
	seeds, clientID := strings.Split(bootstrap, ","), "kafka-go,zone="+zone
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	c := connect(bootstrap)
	topics := []kafka.TopicConfig{{Topic: topic, NumPartitions: partitions, ReplicationFactor: 3}}
	// The first topic of a cluster may take longer than this client allows; it is made all the same.
	err := c.until(ctx, func() (bool, error) {
		answer, err := c.client.CreateTopics(ctx, &kafka.CreateTopicsRequest{Topics: topics})
		if err == nil {
			err = answer.Errors[topic]
		}
		if errors.Is(err, kafka.RequestTimedOut) {
			return false, nil
		}
		if errors.Is(err, kafka.TopicAlreadyExists) {
			err = nil
		}
		return err == nil, err
	})
	if err != nil {
		return err
	}
	var acked, read, failed atomic.Int64
	for partition := range partitions {
		reader := kafka.NewReader(kafka.ReaderConfig{
			Brokers: seeds, Topic: topic, Partition: partition, MaxWait: 500 * time.Millisecond,
			Dialer: &kafka.Dialer{ClientID: clientID, Timeout: 10 * time.Second},
		})
		defer reader.Close()
		go func() {
			for {
				if _, err := reader.ReadMessage(context.Background()); err != nil {
					failed.Add(1)
					time.Sleep(50 * time.Millisecond)
				} else {
					read.Add(1)
				}
			}
		}()
	}
	go func() {
		for range time.Tick(200 * time.Millisecond) {
			fmt.Println(time.Now().UnixMilli(), acked.Load(), read.Load(), failed.Load())
		}
	}()
	writer := &kafka.Writer{
		Addr: kafka.TCP(seeds...), Topic: topic, RequiredAcks: kafka.RequireAll, Balancer: &kafka.RoundRobin{},
		BatchTimeout: 5 * time.Millisecond, Transport: &kafka.Transport{ClientID: clientID},
	}
	defer writer.Close()
	var writing sync.WaitGroup
	for range writers {
		writing.Go(func() {
			tick := time.NewTicker(writers * time.Second / time.Duration(perSecond))
			for sequence := 0; ctx.Err() == nil; sequence++ {
				message := kafka.Message{Value: fmt.Appendf(nil, "%d %0100d", sequence, 0)}
				if err := writer.WriteMessages(context.Background(), message); err != nil {
					failed.Add(1)
				} else {
					acked.Add(1)
				}
				select {
				case <-tick.C:
				case <-ctx.Done():
				}
			}
		})
	}
	<-ctx.Done()
	writing.Wait()
	for deadline := time.Now().Add(time.Minute); read.Load() < acked.Load() && time.Now().Before(deadline); {
		time.Sleep(50 * time.Millisecond)
	}
	fmt.Println(time.Now().UnixMilli(), acked.Load(), read.Load(), failed.Load())
	return nil
}
