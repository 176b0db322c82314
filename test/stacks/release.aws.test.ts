import { cpSync, mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { FUNCTION_NAMES } from '#core/http/route.ts';
import { defineStage } from '#lib/config.ts';
import { API_STACK_FUNCTIONS } from '#lib/functions.ts';
import { createdBefore } from '#test/helpers/creation-order.ts';
import {
  emptyFolders,
  functionIdOf,
  policyOf,
  type Resource,
  rendered,
  resourcesOf,
  synthesise,
  synthesiseAnew,
  type Template,
} from '#test/helpers/templates.ts';
import { stage as dev } from '../../stages/dev.ts';

const { bundles } = emptyFolders();
const tried = defineStage({ ...dev, release: { percent: 5, minutes: 10 } });
const synthesis = synthesiseAnew(tried, bundles);
const { api } = synthesis;
const [[stageId, apiStage]] = resourcesOf(api, 'AWS::ApiGateway::Stage') as [[string, Resource]];
const [[releaseId, release]] = resourcesOf(api, 'Custom::Release') as [[string, Resource]];
const idsOf = (template: Template, type: string) => resourcesOf(template, type).map(([id]) => id);

test('the stage of the API names a version of each function, and no other function has versions', () => {
  const versions = Object.entries<{ 'Fn::GetAtt': [string, string] }>(apiStage.Properties.Variables);
  expect(versions.map(([name]) => name).sort()).toEqual(FUNCTION_NAMES.map((fn) => fn.replaceAll('-', '_')).sort());
  for (const [name, { 'Fn::GetAtt': path }] of versions) {
    expect(path[1]).toBe('Version');
    const { Type, Properties, DeletionPolicy } = api.Resources[path[0]]!;
    expect(Type).toBe('AWS::Lambda::Version');
    expect(Properties.FunctionName).toEqual({ Ref: functionIdOf(api, name.replaceAll('_', '-')) });
    // Calls may still run when the next one comes. That of a failed deployment goes: Lambda makes no version twice.
    expect(DeletionPolicy).toBe('RetainExceptOnCreate');
  }
  expect(idsOf(api, 'AWS::Lambda::Version')).toHaveLength(FUNCTION_NAMES.length);
});

test('a changed function gets a new version; the others keep theirs', () => {
  const changed = mkdtempSync(join(tmpdir(), 'platform-bundles-'));
  cpSync(bundles, changed, { recursive: true });
  writeFileSync(join(changed, 'agents/index.mjs'), 'export const handler = () => "changed";');
  const next = synthesiseAnew(tried, changed).api;
  const [before, after] = [new Set(idsOf(api, 'AWS::Lambda::Version')), new Set(idsOf(next, 'AWS::Lambda::Version'))];
  expect([...after.difference(before)]).toEqual([expect.stringMatching(/^agentsFunctionCurrentVersion/)]);
  expect(resourcesOf(next, 'Custom::Release')[0]![1].Properties).not.toEqual(release.Properties);
});

describe('a release is tried', () => {
  test('with all that the stage shall serve, before the stage moves there', () => {
    expect(release.Properties).toMatchObject({
      StageName: 'dev',
      DeploymentId: apiStage.Properties.DeploymentId,
      Variables: apiStage.Properties.Variables,
      Percent: '5',
      Seconds: '600',
      ServiceTimeout: '900',
    });
    expect(createdBefore(api, stageId)).toContain(releaseId);
    const before = createdBefore(api, releaseId);
    expect(before).not.toContain(stageId);
    for (const type of ['Lambda::Version', 'ApiGateway::Deployment', 'CloudWatch::Alarm', 'Logs::MetricFilter']) {
      for (const id of idsOf(api, `AWS::${type}`)) expect(before, id).toContain(id);
    }
    const policies = resourcesOf(api, 'AWS::IAM::Policy').filter(([id]) => /^(apiCaller|apiRelease)/.test(id));
    expect(policies).toHaveLength(2);
    for (const [id] of policies) expect(before).toContain(id);
  });

  test('before what serves no requests changes, in this stack and in others', () => {
    for (const name of API_STACK_FUNCTIONS) {
      expect(createdBefore(api, functionIdOf(api, name)), name).toContain(stageId);
    }
    for (const { name, after } of synthesis.stacks) {
      if (/-(compute|services|observability)$/.test(name)) expect(after, name).toContain('platform-dev-api');
    }
  });

  test('under alarms for its versions alone', () => {
    const alarms = resourcesOf(api, 'AWS::CloudWatch::Alarm').map(([, { Properties }]) => Properties);
    const [faults, errors] = ['faults', 'errors'].map((name) =>
      alarms.find(({ AlarmName }) => AlarmName === `platform-dev-release-${name}`),
    );
    expect(alarms).toHaveLength(2);
    expect(release.Properties.Alarms).toHaveLength(2);
    expect(faults).toMatchObject({
      Namespace: 'platform/dev',
      MetricName: 'CanaryFaults',
      Statistic: 'Average',
      Period: 60,
      Threshold: 0.05,
      ComparisonOperator: 'GreaterThanThreshold',
      TreatMissingData: 'notBreaching',
    });
    const filters = resourcesOf(api, 'AWS::Logs::MetricFilter').map(([, { Properties }]) => Properties);
    expect(
      Object.fromEntries(
        filters.map(({ FilterPattern, MetricTransformations: [{ MetricValue }] }) => [MetricValue, FilterPattern]),
      ),
    ).toEqual({
      0: '{ ($.canary = "true") && ($.status != "5*") }',
      1: '{ ($.canary = "true") && ($.status = "5*") }',
    });
    const { Format } = apiStage.Properties.AccessLogSetting;
    for (const field of ['"canary":"$context.isCanaryRequest"', '"status":"$context.status"'])
      expect(Format).toContain(field);
    const dimensions = errors.Metrics.filter(({ MetricStat }: Record<string, unknown>) => MetricStat).map(
      // biome-ignore lint/suspicious/noExplicitAny: a metric of an alarm.
      ({ MetricStat: { Metric } }: any) =>
        Object.fromEntries(
          Metric.Dimensions.map(({ Name, Value }: { Name: string; Value: unknown }) => [Name, rendered(Value)]),
        ),
    );
    // A stream that breaks has sent its status before.
    expect(dimensions).toEqual(
      ['a2a', 'calls', 'downloads', 'events', 'mcp'].map((fn) => {
        const version = `<${apiStage.Properties.Variables[fn]['Fn::GetAtt'][0]}.Version>`;
        return { FunctionName: `platform-dev-${fn}`, Resource: `platform-dev-${fn}:${version}` };
      }),
    );
    expect(errors).toMatchObject({ Threshold: 0, ComparisonOperator: 'GreaterThanThreshold', EvaluationPeriods: 1 });
  });

  test('by a function that may change this stage and read these alarms', () => {
    const [[apiId]] = resourcesOf(api, 'AWS::ApiGateway::RestApi') as [[string, Resource]];
    const alarmIds = idsOf(api, 'AWS::CloudWatch::Alarm');
    const { allowed } = policyOf(api, 'release');
    const own = Object.entries(allowed).filter(([resource]) => !/Logs|\*$/.test(resource));
    expect(Object.fromEntries(own)).toEqual({
      [`arn:aws:apigateway:eu-west-1::/restapis/<${apiId}>/stages/dev`]: ['apigateway:GET', 'apigateway:PATCH'],
      ...Object.fromEntries(
        alarmIds.map((id) => [`<${id}.Arn>`, ['cloudwatch:DescribeAlarms', 'cloudwatch:SetAlarmState']]),
      ),
    });
  });
});

test('a stage that releases at once moves when all versions are there', () => {
  const direct = synthesise(defineStage({ ...dev, release: { kind: 'at-once' } })).api;
  expect(resourcesOf(direct, 'Custom::Release')).toEqual([]);
  expect(resourcesOf(direct, 'AWS::CloudWatch::Alarm')).toEqual([]);
  const [[id]] = resourcesOf(direct, 'AWS::ApiGateway::Stage') as [[string, Resource]];
  for (const version of idsOf(direct, 'AWS::Lambda::Version')) expect(createdBefore(direct, id)).toContain(version);
});

test.each([
  [{ percent: 60 }, 'release.percent'],
  [{ minutes: 15 }, 'release.minutes'],
  [{ kind: 'at-once', minutes: 5 }, 'release'],
])('%j is refused by name', (wrong, name) => {
  expect(() => defineStage({ ...dev, release: wrong as never })).toThrow(name);
});
