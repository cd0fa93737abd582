package main

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

func transactional(asked *request, options ...kgo.Opt) (*kgo.Client, error) {
	return kgo.NewClient(append(options, transactionalOptions(asked)...)...)
}

func transactionalOptions(asked *request) []kgo.Opt {
	return []kgo.Opt{
		kgo.SeedBrokers(seeds(asked)...),
		kgo.TransactionalID(asked.TransactionalID),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
	}
}

// transact writes transactions one after the other.
func transact(ctx context.Context, asked *request) (any, error) {
	client, err := transactional(asked)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	for _, transaction := range asked.Transactions {
		if err := client.BeginTransaction(); err != nil {
			return nil, err
		}
		if err := client.ProduceSync(ctx, records(asked.Topic, transaction.Records)...).FirstErr(); err != nil {
			return nil, err
		}
		how := kgo.TryAbort
		if transaction.Commit {
			how = kgo.TryCommit
		}
		if err := client.EndTransaction(ctx, how); err != nil {
			return nil, err
		}
	}
	return nil, nil
}

// fence has a producer write, another take its id, and the first want to commit: which is refused.
func fence(ctx context.Context, asked *request) (any, error) {
	first, err := transactional(asked)
	if err != nil {
		return nil, err
	}
	defer first.Close()
	if err := first.BeginTransaction(); err != nil {
		return nil, err
	}
	fenced := &kgo.Record{Topic: asked.Topic, Value: []byte("fenced")}
	if err := first.ProduceSync(ctx, fenced).FirstErr(); err != nil {
		return nil, err
	}
	second, err := transactional(asked)
	if err != nil {
		return nil, err
	}
	defer second.Close()
	if _, _, err := second.ProducerID(ctx); err != nil {
		return nil, err
	}
	return nil, first.EndTransaction(ctx, kgo.TryCommit)
}

// copyAll writes what a group reads in capitals, with its positions. The first attempt is aborted.
func copyAll(ctx context.Context, asked *request) (any, error) {
	options := append(transactionalOptions(asked),
		kgo.ConsumerGroup(asked.Group),
		kgo.ConsumeTopics(asked.Source),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.FetchMaxWait(100*time.Millisecond),
		kgo.RequireStableFetchOffsets(),
	)
	session, err := kgo.NewGroupTransactSession(options...)
	if err != nil {
		return nil, err
	}
	defer session.Close()
	how := kgo.TryAbort
	for left := asked.Count; left > 0; {
		fetches := session.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			return nil, err
		}
		if fetches.NumRecords() == 0 {
			continue
		}
		if err := session.Begin(); err != nil {
			return nil, err
		}
		var made []*kgo.Record
		fetches.EachRecord(func(read *kgo.Record) {
			made = append(made, &kgo.Record{
				Topic: asked.Topic, Partition: read.Partition, Key: read.Key,
				Value: []byte(strings.ToUpper(string(read.Value))),
			})
		})
		if err := session.ProduceSync(ctx, made...).FirstErr(); err != nil {
			return nil, err
		}
		committed, err := session.End(ctx, how)
		if err != nil {
			return nil, err
		}
		if committed {
			left -= len(made)
		} else if how == kgo.TryCommit {
			return nil, errors.New("the transaction was aborted")
		}
		how = kgo.TryCommit
	}
	return nil, nil
}
