package main

import (
	"context"
	"fmt"
	"sync"

	"github.com/IBM/sarama"
)

const (
	groupPartitions = 6
	groupRecords    = 120
)

// member marks what it reads, and ends the reading when all of the group have seen every record.
type member struct {
	seen *seen
}

type seen struct {
	lock    sync.Mutex
	records map[string]bool
	all     context.CancelFunc
}

func (member) Setup(sarama.ConsumerGroupSession) error   { return nil }
func (member) Cleanup(sarama.ConsumerGroupSession) error { return nil }

func (m member) ConsumeClaim(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	for message := range claim.Messages() {
		session.MarkMessage(message, "")
		m.seen.lock.Lock()
		m.seen.records[fmt.Sprint(message.Partition, " ", message.Offset)] = true
		if len(m.seen.records) == groupRecords {
			m.seen.all()
		}
		m.seen.lock.Unlock()
	}
	return nil
}

// filled is a topic with as many records in each of its partitions.
func filled(c *cluster, what string) (string, error) {
	topic, err := c.topic(what, groupPartitions, nil)
	for partition := int32(0); err == nil && partition < groupPartitions; partition++ {
		err = c.write(c.config(), topic, partition, values("g", groupRecords/groupPartitions))
	}
	return topic, err
}

// readByGroup has three members read the topic to its end, and commit; what was committed is given back.
func readByGroup(c *cluster, topic, group string, strategy sarama.BalanceStrategy) (int64, error) {
	ctx, cancel := context.WithTimeout(context.Background(), caseTimeMax)
	defer cancel()
	everything := &seen{records: map[string]bool{}, all: cancel}
	failures := make(chan error, 3)
	for range 3 {
		config := c.config()
		config.Consumer.Return.Errors = false
		config.Consumer.Group.Rebalance.GroupStrategies = []sarama.BalanceStrategy{strategy}
		consumer, err := sarama.NewConsumerGroup(c.seeds, group, config)
		if err != nil {
			return 0, err
		}
		go func() {
			var err error
			for ctx.Err() == nil && err == nil {
				err = consumer.Consume(ctx, []string{topic}, member{everything})
			}
			if closed := consumer.Close(); err == nil {
				err = closed
			}
			failures <- err
		}()
	}
	for range 3 {
		if err := <-failures; err != nil {
			return 0, err
		}
	}
	offsets, err := c.admin.ListConsumerGroupOffsets(group, nil)
	if err != nil {
		return 0, err
	}
	sum := int64(0)
	for _, block := range offsets.Blocks[topic] {
		sum += block.Offset
	}
	return sum, nil
}

func groups(c *cluster) error {
	topic, err := filled(c, "groups")
	if err != nil {
		return err
	}
	for _, strategy := range []sarama.BalanceStrategy{
		sarama.NewBalanceStrategyRange(), sarama.NewBalanceStrategyRoundRobin(), sarama.NewBalanceStrategySticky(),
	} {
		group := c.name("by-" + strategy.Name())
		committed, err := readByGroup(c, topic, group, strategy)
		if err != nil {
			return fmt.Errorf("%s: %w", strategy.Name(), err)
		}
		if err := expect("committed by "+strategy.Name(), committed, groupRecords); err != nil {
			return err
		}
		told, err := c.admin.DescribeConsumerGroups([]string{group})
		if err != nil {
			return err
		}
		if err := expect("members left", len(told[0].Members), 0); err != nil {
			return err
		}
	}
	return nil
}

func groupOffsets(c *cluster) error {
	topic, err := filled(c, "group-offsets")
	if err != nil {
		return err
	}
	group := c.name("offsets-group")
	if _, err := readByGroup(c, topic, group, sarama.NewBalanceStrategyRange()); err != nil {
		return err
	}
	if err := c.admin.DeleteConsumerGroupOffset(group, topic, 0); err != nil {
		return err
	}
	offsets, err := c.admin.ListConsumerGroupOffsets(group, map[string][]int32{topic: {0, 1}})
	if err != nil {
		return err
	}
	told := fmt.Sprint(offsets.GetBlock(topic, 0).Offset, " ", offsets.GetBlock(topic, 1).Offset)
	if err := expect("offsets", told, fmt.Sprint(-1, " ", groupRecords/groupPartitions)); err != nil {
		return err
	}
	return c.admin.DeleteConsumerGroup(group)
}
