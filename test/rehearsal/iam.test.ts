import { describe, expect, test } from 'vitest';
import { allowing, type Statement } from './iam.ts';

const statement = (change: Partial<Statement>): Statement => ({
  effect: 'Allow',
  actions: ['dynamodb:GetItem'],
  notActions: [],
  resources: ['arn:aws:dynamodb:eu-west-1:111122223333:table/t-*'],
  notResources: [],
  condition: {},
  ...change,
});
const ask = { action: 'dynamodb:GetItem', resource: 'arn:aws:dynamodb:eu-west-1:111122223333:table/t-main' };
const RUN = { action: 'ecs:RunTask', resource: 'arn:aws:ecs:eu-west-1:111122223333:task-definition/runner:3' };

describe('a policy', () => {
  test.each([
    ['what it names', {}, true],
    ['actions in any case, with wildcards', { actions: ['DynamoDB:Get*'] }, true],
    ['everything but', { actions: [], notActions: ['dynamodb:Put*'] }, true],
    ['nothing else', { actions: ['dynamodb:PutItem'] }, false],
    ['no other resource', { resources: ['arn:aws:dynamodb:eu-west-1:111122223333:table/other'] }, false],
    ['no resource that goes on', { resources: ['arn:aws:dynamodb:eu-west-1:111122223333:table/t'] }, false],
    ['no index by its table', { resources: ['arn:aws:dynamodb:eu-west-1:111122223333:table/t-main/index/*'] }, false],
  ] as const)('allows %s', (_, change, expected) => {
    expect(allowing([statement(change)], ask) !== undefined).toBe(expected);
  });

  test('names what allowed a request', () => {
    const grants = [statement({ actions: ['s3:*'], resources: ['*'] }), statement({ actions: ['dynamodb:Get*'] })];
    expect(allowing(grants, ask)).toEqual({ action: 'dynamodb:Get*', resource: statement({}).resources[0] });
  });

  test('that denies goes before any that allows', () => {
    const denied = statement({ effect: 'Deny', actions: ['*'], resources: ['*'] });
    expect(allowing([statement({}), denied], ask)).toBeUndefined();
  });

  test('without a statement allows nothing', () => {
    expect(allowing([], ask)).toBeUndefined();
  });
});

describe('a condition', () => {
  const CLUSTER = 'arn:aws:ecs:eu-west-1:111122223333:cluster/sandbox';
  const runs = (condition: Statement['condition'], context?: Record<string, string[]>) =>
    allowing([statement({ actions: [RUN.action], resources: ['*'], condition })], { ...RUN, context }) !== undefined;

  test.each([
    [{ ArnEquals: { 'ecs:cluster': CLUSTER } }, [CLUSTER], true],
    [{ ArnEquals: { 'ecs:cluster': CLUSTER } }, [`${CLUSTER}-2`], false],
    [{ ArnLike: { 'ecs:cluster': 'arn:aws:ecs:*:*:cluster/s*' } }, [CLUSTER], true],
    [{ StringNotEquals: { 'ecs:cluster': CLUSTER } }, [CLUSTER], false],
    [{ StringNotEquals: { 'ecs:cluster': CLUSTER } }, ['other'], true],
    [{ 'ForAllValues:StringEquals': { 'ecs:cluster': ['a', 'b'] } }, ['a', 'b'], true],
    [{ 'ForAllValues:StringEquals': { 'ecs:cluster': ['a', 'b'] } }, ['a', 'c'], false],
    [{ 'ForAnyValue:StringEquals': { 'ecs:cluster': ['a'] } }, ['b', 'a'], true],
    [{ StringEquals: { 'ecs:cluster': CLUSTER }, Bool: { 'aws:SecureTransport': 'true' } }, [CLUSTER], false],
  ])('%j of %j: %s', (condition, value, expected) => {
    expect(runs(condition, { 'ecs:cluster': value })).toBe(expected);
  });

  test('on what the request does not say holds only where it may', () => {
    expect(runs({ StringEquals: { 'ecs:cluster': 'a' } })).toBe(false);
    expect(runs({ StringEqualsIfExists: { 'ecs:cluster': 'a' } })).toBe(true);
    expect(runs({ Null: { 'ecs:cluster': 'true' } })).toBe(true);
    expect(runs({ Null: { 'ecs:cluster': 'false' } })).toBe(false);
  });

  test('that is not understood is an error, not a pass', () => {
    expect(() => runs({ IpAddress: { 'aws:SourceIp': '10.0.0.0/8' } }, { 'aws:SourceIp': ['10.0.0.1'] })).toThrow(
      'IpAddress',
    );
  });
});
