import { AwsSolutionsChecks } from 'cdk-nag';
import { describe, expect, test } from 'vitest';
import { parseAwsConfig } from '#aws/config.ts';
import { FUNCTION_NAMES } from '#core/http/route.ts';
import { API_STACK_FUNCTIONS } from '#lib/functions.ts';
import { environmentOf, functionIdOf, policyOf, resourcesOf, synthesise } from '#test/helpers/templates.ts';
import { stage as prod } from '../../stages/prod.ts';

/** Rights of the stage `prod`, which platform.aws.test.ts and services.aws.test.ts list, and those with another place of secrets. */
const byDefault = synthesise(prod);
const envelope = synthesise({ ...prod, secrets: 'envelope' });
const both = synthesise({ ...prod, secrets: 'both' });

const KEY = 'arn:aws:kms:eu-west-1:111122223333:key/*';
const COUNTERS = 'arn:aws:dynamodb:eu-west-1:111122223333:table/platform-prod-counters';
const MANAGED = 'arn:aws:secretsmanager:eu-west-1:111122223333:secret:platform/prod/';
const READERS = [
  ...['a2a', 'calls', 'loop-worker', 'mcp', 'schedule-fired', 'schedule-sweeper', 'secrets', 'service-keeper'],
];
/** They read only what signs messages. Containers of tenants call `service-instances`. */
const SIGNERS = ['schedules', 'service-instances', 'sweeper'];
/** The keeper reads only the stamps of vaults. */
const COUNTERS_BESIDE: Record<string, string[] | undefined> = {
  'service-keeper': undefined,
};

const FUNCTIONS = [...FUNCTION_NAMES, ...API_STACK_FUNCTIONS, 'service-keeper' as const];
const templateOf = ({ api, services }: typeof byDefault, fn: string) => (fn === 'service-keeper' ? services! : api);
const rightsIn = (stage: typeof byDefault, fn: string) => policyOf(templateOf(stage, fn), fn).allowed;

test('functions that read secrets, or only those that sign messages, are those listed here', () => {
  const having = (pattern: string) => FUNCTIONS.filter((fn) => rightsIn(byDefault, fn)[MANAGED + pattern]).toSorted();
  expect(having('*')).toEqual(READERS);
  expect(having('signing-*')).toEqual(SIGNERS);
});

describe.each(FUNCTIONS)('%s', (fn) => {
  const isUser = [...READERS, ...SIGNERS].includes(fn);
  const keyRights = isUser ? ['kms:Decrypt', ...(fn === 'secrets' ? ['kms:GenerateDataKey'] : [])] : [];
  const withKey = (rights: Record<string, string[]>) => ({
    ...rights,
    ...(keyRights.length > 0 && { [KEY]: [...(rights[KEY] ?? []), ...keyRights].sort() }),
  });

  test('opens envelopes instead of reading Secrets Manager, where the stage says so, and has no other right', () => {
    const { [`${MANAGED}*`]: _, [`${MANAGED}signing-*`]: __, ...rights } = rightsIn(byDefault, fn);
    if (fn in COUNTERS_BESIDE) {
      delete rights[COUNTERS];
      if (COUNTERS_BESIDE[fn]) rights[COUNTERS] = COUNTERS_BESIDE[fn];
    }
    expect(rightsIn(envelope, fn)).toEqual(withKey(rights));
  });

  test('has both while secrets move', () => {
    expect(rightsIn(both, fn)).toEqual(withKey(rightsIn(byDefault, fn)));
  });

  test('knows the place', () => {
    const placeIn = (stage: typeof byDefault) => parseAwsConfig(environmentOf(templateOf(stage, fn), fn)).secrets;
    expect([byDefault, envelope, both].map(placeIn)).toEqual(
      isUser ? ['secrets-manager', 'envelope', 'both'] : Array(3).fill('secrets-manager'),
    );
  });
});

test('keys of secrets are used for one workspace each, under the key of the stage', () => {
  const { api } = envelope;
  const role = (fn: string) => api.Resources[functionIdOf(api, fn)]!.Properties.Role['Fn::GetAtt'][0];
  const conditionsOf = (fn: string) =>
    resourcesOf(api, 'AWS::IAM::Policy')
      .filter(([, { Properties }]) => Properties.Roles.some(({ Ref }: { Ref: string }) => Ref === role(fn)))
      .flatMap(([, { Properties }]) => Properties.PolicyDocument.Statement)
      .filter(({ Action }) => [Action].flat().some((action) => action.startsWith('kms:')))
      .map(({ Condition }) => Condition);
  const condition = (vault: string) => ({
    StringEquals: { 'kms:EncryptionContext:vault': vault, 'kms:RequestAlias': 'alias/platform-prod-data-keys' },
    Null: { 'kms:EncryptionContext:workspace': 'false' },
  });
  // Tokens of connections are sealed with the key of the workspace, as journals are.
  expect(conditionsOf('secrets')).toEqual([condition('platform/prod/secrets'), condition('platform/prod')]);
  const { StringEquals } = condition('platform/prod/secrets');
  const StringLike = { 'kms:EncryptionContext:workspace': 'signing-*' };
  // Addresses for pushes of tasks are sealed as journals are.
  const beside = (fn: string) => (fn === 'sweeper' ? [condition('platform/prod')] : []);
  for (const fn of SIGNERS) expect(conditionsOf(fn)).toEqual([{ StringEquals, StringLike }, ...beside(fn)]);
  expect(conditionsOf('calls')).toEqual([condition('platform/prod/secrets'), condition('platform/prod')]);
});

test('no function of a stage with envelopes reads a secret of a workspace in Secrets Manager', () => {
  for (const { template } of envelope.stacks) expect(JSON.stringify(template)).not.toContain('secret:platform/prod/');
});

test('every finding of cdk-nag is acknowledged', () => {
  for (const { app } of [envelope, both]) expect(new AwsSolutionsChecks().validateScope(app).violations).toEqual([]);
});

test('a deployment says which place its functions know', () => {
  const placeIn = ({ api }: typeof byDefault) => resourcesOf(api, 'Custom::DataVersion')[0]![1].Properties.Secrets;
  expect([byDefault, envelope, both].map(placeIn)).toEqual(['secrets-manager', 'envelope', 'both']);
});
