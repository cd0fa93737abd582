package main

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/twmb/franz-go/pkg/kadm"
)

var administrations = map[string]administration{
	"committed":      committed,
	"create_topic":   createTopic,
	"add_partitions": addPartitions,
	"delete_topic":   deleteTopic,
	"topics":         topics,
	"describe_topic": describeTopic,
	"topic_config":   topicConfig,
	"alter_config":   alterConfig,
	"delete_records": deleteRecords,
	"offsets":        offsets,
	"groups":         groups,
	"describe_group": describeGroup,
	"delete_group":   deleteGroup,
	"alter_offsets":  alterOffsets,
	"delete_offsets": deleteOffsets,
	"brokers":        brokers,
}

func committed(ctx context.Context, admin *kadm.Client, asked *request) (any, error) {
	found, err := admin.FetchOffsets(ctx, asked.Group)
	if err != nil {
		return nil, err
	}
	offsets := map[int32]*int64{}
	for _, partition := range numbers(asked) {
		offsets[partition] = nil
		if one, ok := found.Lookup(asked.Topic, partition); ok && one.At >= 0 {
			offsets[partition] = &one.At
		}
	}
	return offsets, nil
}

func createTopic(ctx context.Context, admin *kadm.Client, asked *request) (any, error) {
	var partitions int32
	if err := json.Unmarshal(asked.Partitions, &partitions); err != nil {
		return nil, err
	}
	_, err := admin.CreateTopic(ctx, partitions, 1, asked.Configs, asked.Topic)
	return nil, err
}

func addPartitions(ctx context.Context, admin *kadm.Client, asked *request) (any, error) {
	found, err := admin.UpdatePartitions(ctx, asked.Total, asked.Topic)
	return nil, first(err, found.Error)
}

func deleteTopic(ctx context.Context, admin *kadm.Client, asked *request) (any, error) {
	_, err := admin.DeleteTopic(ctx, asked.Topic)
	return nil, err
}

func topics(ctx context.Context, admin *kadm.Client, _ *request) (any, error) {
	found, err := admin.ListTopics(ctx)
	return found.Names(), err
}

func describeTopic(ctx context.Context, admin *kadm.Client, asked *request) (any, error) {
	found, err := admin.ListTopics(ctx, asked.Topic)
	if err := first(err, found.Error); err != nil {
		return nil, err
	}
	partitions := [][2]int32{}
	for _, one := range found[asked.Topic].Partitions.Sorted() {
		partitions = append(partitions, [2]int32{one.Partition, one.Leader})
	}
	return partitions, nil
}

func topicConfig(ctx context.Context, admin *kadm.Client, asked *request) (any, error) {
	found, err := admin.DescribeTopicConfigs(ctx, asked.Topic)
	if err != nil {
		return nil, err
	}
	config, err := found.On(asked.Topic, nil)
	values := map[string]*string{}
	for _, one := range config.Configs {
		values[one.Key] = one.Value
	}
	return values, first(err, func() error { return config.Err })
}

func alterConfig(ctx context.Context, admin *kadm.Client, asked *request) (any, error) {
	changes := []kadm.AlterConfig{}
	for name, value := range asked.Configs {
		how := kadm.SetConfig
		if value == nil {
			how = kadm.DeleteConfig
		}
		changes = append(changes, kadm.AlterConfig{Op: how, Name: name, Value: value})
	}
	found, err := admin.AlterTopicConfigs(ctx, changes, asked.Topic)
	if err != nil {
		return nil, err
	}
	one, err := found.On(asked.Topic, nil)
	return nil, first(err, func() error { return one.Err })
}

func deleteRecords(ctx context.Context, admin *kadm.Client, asked *request) (any, error) {
	found, err := admin.DeleteRecords(ctx, offsetsOf(asked.Topic, asked.Before))
	if err := first(err, found.Error); err != nil {
		return nil, err
	}
	lows := map[int32]int64{}
	found.Each(func(one kadm.DeleteRecordsResponse) { lows[one.Partition] = one.LowWatermark })
	return lows, nil
}

func offsets(ctx context.Context, admin *kadm.Client, asked *request) (any, error) {
	var found kadm.ListedOffsets
	var err error
	var moment int64
	switch string(asked.At) {
	case `"earliest"`:
		found, err = admin.ListStartOffsets(ctx, asked.Topic)
	case `"latest"`:
		found, err = admin.ListEndOffsets(ctx, asked.Topic)
	default:
		if err := json.Unmarshal(asked.At, &moment); err != nil {
			return nil, err
		}
		found, err = admin.ListOffsetsAfterMilli(ctx, moment, asked.Topic)
	}
	if err := first(err, found.Error); err != nil {
		return nil, err
	}
	at := map[int32]int64{}
	for _, partition := range numbers(asked) {
		one, _ := found.Lookup(asked.Topic, partition)
		at[partition] = one.Offset
		if moment > 0 && one.Timestamp < 0 { // where no record is so late, franz-go has the end instead
			at[partition] = -1
		}
	}
	return at, nil
}

func groups(ctx context.Context, admin *kadm.Client, _ *request) (any, error) {
	found, err := admin.ListGroups(ctx)
	return found.Groups(), err
}

func describeGroup(ctx context.Context, admin *kadm.Client, asked *request) (any, error) {
	found, err := admin.DescribeGroups(ctx, asked.Group)
	if err := first(err, found.Error); err != nil {
		return nil, err
	}
	members := map[string][][2]any{}
	for _, one := range found[asked.Group].Members {
		assignment, _ := one.Assigned.AsConsumer()
		members[one.ClientID] = [][2]any{}
		for _, topic := range assignment.Topics {
			for _, partition := range topic.Partitions {
				members[one.ClientID] = append(members[one.ClientID], [2]any{topic.Topic, partition})
			}
		}
	}
	return map[string]any{"state": found[asked.Group].State, "members": members}, nil
}

func deleteGroup(ctx context.Context, admin *kadm.Client, asked *request) (any, error) {
	_, err := admin.DeleteGroup(ctx, asked.Group)
	return nil, err
}

func alterOffsets(ctx context.Context, admin *kadm.Client, asked *request) (any, error) {
	return nil, admin.CommitAllOffsets(ctx, asked.Group, offsetsOf(asked.Topic, asked.Offsets))
}

func deleteOffsets(ctx context.Context, admin *kadm.Client, asked *request) (any, error) {
	var wanted kadm.TopicsSet
	wanted.Add(asked.Topic, numbers(asked)...)
	found, err := admin.DeleteOffsets(ctx, asked.Group, wanted)
	return nil, first(err, found.Error)
}

func brokers(ctx context.Context, admin *kadm.Client, _ *request) (any, error) {
	found, err := admin.BrokerMetadata(ctx)
	return map[string]any{
		"cluster": found.Cluster, "controller": found.Controller, "brokers": found.Brokers.NodeIDs(),
	}, err
}

func numbers(asked *request) []int32 {
	var partitions []int32
	if err := json.Unmarshal(asked.Partitions, &partitions); err != nil {
		panic(err)
	}
	return partitions
}

func offsetsOf(topic string, numbers map[int32]int64) kadm.Offsets {
	var offsets kadm.Offsets
	for partition, offset := range numbers {
		offsets.AddOffset(topic, partition, offset, -1)
	}
	return offsets
}

// first is a call's error, or else that of one of its parts.
func first(err error, part func() error) error {
	var several *kadm.ShardErrors
	if err == nil {
		return part()
	}
	if errors.As(err, &several) {
		return several.Errs[0].Err
	}
	return err
}
