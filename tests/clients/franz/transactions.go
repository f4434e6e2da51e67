package main

import (
	"context"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

var transactionCases = []namedCase{
	{"committed_is_read_and_aborted_is_not", committedAndAborted},
	{"a_group_copies_each_record_once", copiesOnce},
	{"transactions_are_listed_and_described", describesTransactions},
}

// committed reads so many records as readers of committed records see them.
func (c *cluster) committed(ctx context.Context, topic string, count int) ([]string, error) {
	reader, err := c.client(
		kgo.ConsumeTopics(topic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
	)
	if err != nil {
		return nil, err
	}
	defer reader.Close()
	var values []string
	for len(values) < count {
		fetches := reader.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			return nil, fmt.Errorf("after %q: %w", values, err)
		}
		fetches.EachRecord(func(r *kgo.Record) { values = append(values, string(r.Value)) })
	}
	return values, nil
}

func committedAndAborted(ctx context.Context, c *cluster) error {
	topic, err := c.topic(ctx, "committed-and-aborted", 1)
	if err != nil {
		return err
	}
	producer, err := c.client(kgo.TransactionalID(topic), kgo.DefaultProduceTopic(topic))
	if err != nil {
		return err
	}
	defer producer.Close()
	for n, end := range []kgo.TransactionEndTry{kgo.TryCommit, kgo.TryAbort, kgo.TryAbort, kgo.TryCommit} {
		if err := producer.BeginTransaction(); err != nil {
			return err
		}
		for range 3 {
			value := []byte(fmt.Sprint(n))
			if err := producer.ProduceSync(ctx, &kgo.Record{Value: value}).FirstErr(); err != nil {
				return err
			}
		}
		if err := producer.EndTransaction(ctx, end); err != nil {
			return fmt.Errorf("the end of transaction %d: %w", n, err)
		}
	}
	values, err := c.committed(ctx, topic, 6)
	if err != nil {
		return err
	}
	if got := fmt.Sprint(values); got != "[0 0 0 3 3 3]" {
		return fmt.Errorf("committed records are %s", got)
	}
	return nil
}

// copiesOnce copies a topic within the group's transactions; every other one is aborted and its records are read again.
func copiesOnce(ctx context.Context, c *cluster) error {
	const count = 200
	in, err := c.filled(ctx, "copied", 2, count/2)
	if err != nil {
		return err
	}
	out, err := c.topic(ctx, "copies", 2)
	if err != nil {
		return err
	}
	session, err := kgo.NewGroupTransactSession(
		kgo.SeedBrokers(c.seeds...),
		kgo.TransactionalID(in),
		kgo.ConsumerGroup(in),
		kgo.ConsumeTopics(in),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.RequireStableFetchOffsets(),
		kgo.DefaultProduceTopic(out),
		kgo.SessionTimeout(10*time.Second),
	)
	if err != nil {
		return err
	}
	defer session.Close()
	copied, aborts := 0, 0
	for copied < count {
		fetches := session.PollRecords(ctx, 30)
		if err := fetches.Err(); err != nil {
			return fmt.Errorf("after %d records: %w", copied, err)
		}
		if fetches.NumRecords() == 0 {
			continue
		}
		if err := session.Begin(); err != nil {
			return err
		}
		fetches.EachRecord(func(r *kgo.Record) {
			session.Produce(ctx, &kgo.Record{Value: fmt.Appendf(nil, "%d/%d", r.Partition, r.Offset)}, nil)
		})
		end := kgo.TryCommit
		if aborts < 3 {
			aborts++
			end = kgo.TryAbort
		}
		committed, err := session.End(ctx, end)
		if err != nil {
			return fmt.Errorf("after %d records: %w", copied, err)
		}
		if committed {
			copied += fetches.NumRecords()
		}
	}
	values, err := c.committed(ctx, out, count)
	if err != nil {
		return err
	}
	seen := map[string]bool{}
	for _, value := range values {
		if seen[value] {
			return fmt.Errorf("%s was copied twice", value)
		}
		seen[value] = true
	}
	return nil
}

func describesTransactions(ctx context.Context, c *cluster) error {
	topic, err := c.topic(ctx, "described", 1)
	if err != nil {
		return err
	}
	producer, err := c.client(kgo.TransactionalID(topic), kgo.DefaultProduceTopic(topic))
	if err != nil {
		return err
	}
	defer producer.Close()
	if err := producer.BeginTransaction(); err != nil {
		return err
	}
	if err := producer.ProduceSync(ctx, kgo.StringRecord("open")).FirstErr(); err != nil {
		return err
	}
	described, err := c.admin.DescribeTransactions(ctx, topic)
	if err != nil {
		return err
	}
	one := described[topic]
	if one.Err != nil || one.State != "Ongoing" || !one.Topics.Lookup(topic, 0) {
		return fmt.Errorf("an open transaction is described as %+v", one)
	}
	listed, err := c.admin.ListTransactions(ctx, nil, []string{"Ongoing"})
	if err != nil {
		return err
	}
	if _, found := listed[topic]; !found {
		return fmt.Errorf("%s is not among %v", topic, listed.TransactionalIDs())
	}
	return producer.EndTransaction(ctx, kgo.TryAbort)
}
