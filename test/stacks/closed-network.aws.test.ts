import { describe, expect, test } from 'vitest';
import { defineStage } from '#lib/config.ts';
import {
  rendered,
  resourcesOf,
  synthesise,
  TEST_ACCOUNT,
  TEST_REGION,
  type Template,
} from '#test/helpers/templates.ts';
import { allowing, statementOf } from '#test/rehearsal/iam.ts';
import { stage as dev } from '../../stages/dev.ts';
import { EVERY_KIND } from './every-kind.ts';

const compute = synthesise(
  defineStage({ ...dev, services: { kind: 'off' }, sandbox: { kind: 'fargate', egress: 'endpoints' } }),
).compute!;

/** Returns the statements of an endpoint, with the values that a deployment has. */
function endpointOf(template: Template, service: string) {
  const [, { Properties }] = resourcesOf(template, 'AWS::EC2::VPCEndpoint').find(([, each]) =>
    rendered(each.Properties.ServiceName).endsWith(`${TEST_REGION}.${service}`),
  )!;
  return (Properties.PolicyDocument?.Statement as object[] | undefined)?.map((statement) =>
    statementOf(
      JSON.parse(JSON.stringify(statement), (_, value) =>
        value?.['Fn::Sub'] || value?.Ref || value?.['Fn::Join'] ? rendered(value) : value,
      ),
    ),
  );
}

const OWN = { 'aws:PrincipalAccount': [TEST_ACCOUNT] };
const FOREIGN = { 'aws:PrincipalAccount': ['999988887777'] };
const bucket = `arn:aws:s3:::platform-dev-${TEST_ACCOUNT}-${TEST_REGION}`;
const log = `arn:aws:logs:${TEST_REGION}:${TEST_ACCOUNT}:log-group:/platform/dev/sandbox:log-stream:task/1`;
const image = `arn:aws:ecr:${TEST_REGION}:${TEST_ACCOUNT}:repository/platform-dev-sandbox`;
const layer = `arn:aws:s3:::prod-${TEST_REGION}-starport-layer-bucket/0a1b`;

describe('without the internet', () => {
  test.each([
    ['a task gets its image', 'ecr.api', 'ecr:GetAuthorizationToken', '*', OWN],
    ['a task gets its image', 'ecr.dkr', 'ecr:BatchGetImage', image, OWN],
    ['layers of images have links of ECR', 's3', 's3:GetObject', layer, {}],
    ['a task writes its log', 'logs', 'logs:PutLogEvents', log, OWN],
    ['a program has links to the bucket', 's3', 's3:GetObject', `${bucket}/bundles/a`, OWN],
    ['a program has links to the bucket', 's3', 's3:PutObject', `${bucket}/transfers/a`, OWN],
    ['S3 reports missing objects', 's3', 's3:ListBucket', bucket, OWN],
  ])('%s: %s %s', (_, service, action, resource, context) => {
    expect(allowing(endpointOf(compute, service)!, { action, resource, context })).toBeDefined();
  });

  test.each([
    ['its own bucket', 's3', 's3:PutObject', 'arn:aws:s3:::stolen/a', FOREIGN],
    ['its own bucket', 's3', 's3:GetObject', 'arn:aws:s3:::stolen/a', FOREIGN],
    ['a bucket of the account', 's3', 's3:PutObject', 'arn:aws:s3:::payroll/a', OWN],
    ["the stage's bucket with keys of its own", 's3', 's3:PutObject', `${bucket}/transfers/a`, FOREIGN],
    ['a bucket without keys', 's3', 's3:PutObject', 'arn:aws:s3:::stolen/a', {}],
    ['a bucket that looks like that of layers', 's3', 's3:PutObject', layer, FOREIGN],
    ['its own log', 'logs', 'logs:PutLogEvents', log.replace(TEST_ACCOUNT, '999988887777'), FOREIGN],
    ["the stage's log with keys of its own", 'logs', 'logs:PutLogEvents', log, FOREIGN],
    ['its own registry', 'ecr.api', 'ecr:GetAuthorizationToken', '*', FOREIGN],
    ['its own registry', 'ecr.dkr', 'ecr:PutImage', image.replace(TEST_ACCOUNT, '999988887777'), FOREIGN],
    ['another registry', 'ecr.dkr', 'ecr:BatchGetImage', image.replace('dev', 'prod'), OWN],
  ])('a program does not reach %s: %s %s', (_, service, action, resource, context) => {
    expect(allowing(endpointOf(compute, service)!, { action, resource, context })).toBeUndefined();
  });

  test('only names of these services are resolved, so that no other name carries data out', () => {
    const [, { Properties: group }] = resourcesOf(compute, 'AWS::Route53Resolver::FirewallRuleGroup')[0]!;
    const lists = new Map(
      resourcesOf(compute, 'AWS::Route53Resolver::FirewallDomainList').map(([id, { Properties }]) => [
        id,
        Properties.Domains.map((domain: unknown) => rendered(domain)) as string[],
      ]),
    );
    const rules: Record<string, { 'Fn::GetAtt': [string] }>[] = group.FirewallRules;
    const rulesByPriority = rules.toSorted((a, b) => Number(a.Priority) - Number(b.Priority));
    const read = rulesByPriority.map(({ Action, FirewallDomainListId }) => [
      Action,
      lists.get(FirewallDomainListId!['Fn::GetAtt'][0]),
    ]);
    expect(read).toEqual([
      ['ALLOW', expect.arrayContaining([`api.ecr.${TEST_REGION}.amazonaws.com`, `*.s3.${TEST_REGION}.amazonaws.com`])],
      ['BLOCK', ['*']],
    ]);
    for (const host of read[0]![1] as string[]) expect(host.endsWith(`.${TEST_REGION}.amazonaws.com`)).toBe(true);
    const [, association] = resourcesOf(compute, 'AWS::Route53Resolver::FirewallRuleGroupAssociation')[0]!;
    const [vpc] = resourcesOf(compute, 'AWS::EC2::VPC')[0]!;
    expect(association.Properties).toMatchObject({ VpcId: { Ref: vpc } });
  });
});

test.each(['to try things in', 'with private networks'])('with the internet, programs call any bucket: %s', (kind) => {
  expect(endpointOf(synthesise(EVERY_KIND[kind]!).compute!, 's3')).toBeUndefined();
});
