package main

import (
	"context"
	"fmt"
	"sort"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// member is a consumer in a group: a goroutine that polls all the time.
type member struct {
	client  *kgo.Client
	lock    sync.Mutex
	records []record
	failure error
	stopped chan struct{}
	owned   map[string]map[int32]bool
}

var members = map[string]*member{}

var balancers = map[string]kgo.GroupBalancer{
	"range":              kgo.RangeBalancer(),
	"roundrobin":         kgo.RoundRobinBalancer(),
	"sticky":             kgo.StickyBalancer(),
	"cooperative-sticky": kgo.CooperativeStickyBalancer(),
}

func join(_ context.Context, asked *request) (any, error) {
	joined := &member{stopped: make(chan struct{}), owned: map[string]map[int32]bool{}}
	options := []kgo.Opt{
		kgo.SeedBrokers(seeds(asked)...),
		kgo.ClientID(asked.Member),
		kgo.ConsumerGroup(asked.Group),
		kgo.ConsumeTopics(asked.Topics...),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.DisableAutoCommit(),
		kgo.FetchMaxWait(100 * time.Millisecond),
		kgo.MetadataMaxAge(time.Second),
		kgo.MetadataMinAge(250 * time.Millisecond),
		kgo.SessionTimeout(6 * time.Second),
		kgo.HeartbeatInterval(300 * time.Millisecond),
		kgo.OnPartitionsAssigned(func(_ context.Context, _ *kgo.Client, added map[string][]int32) {
			joined.own(added, true)
		}),
		kgo.OnPartitionsRevoked(func(_ context.Context, _ *kgo.Client, gone map[string][]int32) {
			joined.own(gone, false)
		}),
		kgo.OnPartitionsLost(func(_ context.Context, _ *kgo.Client, gone map[string][]int32) {
			joined.own(gone, false)
		}),
	}
	if asked.Instance != nil {
		options = append(options, kgo.InstanceID(*asked.Instance))
	}
	if len(asked.Assignors) > 0 {
		chosen := []kgo.GroupBalancer{}
		for _, name := range asked.Assignors {
			chosen = append(chosen, balancers[name])
		}
		options = append(options, kgo.Balancers(chosen...))
	}
	if asked.Protocol == "consumer" {
		options = append(options, kgo.ServerSideBalancer(), kgo.Balancers(kgo.StickyBalancer()))
	}
	client, err := kgo.NewClient(options...)
	if err != nil {
		return nil, err
	}
	joined.client = client
	members[asked.Member] = joined
	go joined.run()
	return nil, nil
}

func (joined *member) own(partitions map[string][]int32, yes bool) {
	joined.lock.Lock()
	defer joined.lock.Unlock()
	for topic, numbers := range partitions {
		if joined.owned[topic] == nil {
			joined.owned[topic] = map[int32]bool{}
		}
		for _, number := range numbers {
			joined.owned[topic][number] = yes
		}
	}
}

func (joined *member) run() {
	defer close(joined.stopped)
	for {
		fetches := joined.client.PollFetches(context.Background())
		if fetches.IsClientClosed() {
			return
		}
		joined.lock.Lock()
		if err := fetches.Err(); err != nil {
			joined.failure = err
		}
		fetches.EachRecord(func(fetched *kgo.Record) { joined.records = append(joined.records, described(fetched)) })
		joined.lock.Unlock()
	}
}

func look(_ context.Context, asked *request) (any, error) {
	joined := members[asked.Member]
	joined.lock.Lock()
	defer joined.lock.Unlock()
	if joined.failure != nil {
		return nil, joined.failure
	}
	records, assignment := append([]record{}, joined.records...), [][2]any{}
	joined.records = nil
	for topic, numbers := range joined.owned {
		for number, owned := range numbers {
			if owned {
				assignment = append(assignment, [2]any{topic, number})
			}
		}
	}
	sort.Slice(assignment, func(i, j int) bool { return fmt.Sprint(assignment[i]) < fmt.Sprint(assignment[j]) })
	return map[string]any{"records": records, "assignment": assignment}, nil
}

func commit(ctx context.Context, asked *request) (any, error) {
	return nil, members[asked.Member].client.CommitUncommittedOffsets(ctx)
}

func leave(_ context.Context, asked *request) (any, error) {
	leaving := members[asked.Member]
	delete(members, asked.Member)
	leaving.client.Close()
	<-leaving.stopped
	return nil, nil
}
