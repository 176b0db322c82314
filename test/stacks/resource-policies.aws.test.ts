import { describe, expect, test } from 'vitest';
import type { StageFile } from '#lib/config.ts';
import { needsOf, unreachable } from '#test/helpers/resource-policies.ts';
import { synthesise, type Template } from '#test/helpers/templates.ts';
import { stage as dev } from '../../stages/dev.ts';
import { stage as prod } from '../../stages/prod.ts';
import { everythingAsked } from './everything-asked.ts';

const STAGES: Readonly<Record<string, StageFile>> = {
  dev,
  prod,
  'prod with mail, costs and no sandbox': {
    ...prod,
    sandbox: { kind: 'none' },
    alarms: { email: 'ops@example.com', dailyUsd: 50 },
  },
  'with all settings': everythingAsked,
};

describe.each(Object.entries(STAGES))('%s', (_, stage) => {
  const { stacks } = synthesise(stage);

  test('services of AWS may reach each resource that another one sends them to', () => {
    expect(stacks.flatMap(({ template }) => unreachable(template))).toEqual([]);
  });
});

test('alarms, rules, budgets, logs and CloudFront are looked at', () => {
  const { stacks } = synthesise(STAGES['prod with mail, costs and no sandbox']!);
  const needs = stacks.flatMap(({ template }) => needsOf(template));
  const kinds = new Set(needs.map(({ service, action }) => `${service} ${action}`));
  expect([...kinds].sort()).toEqual([
    'budgets.amazonaws.com sns:Publish',
    'cloudfront.amazonaws.com s3:GetObject',
    'cloudwatch.amazonaws.com sns:Publish',
    'events.amazonaws.com lambda:InvokeFunction',
    'events.amazonaws.com sns:Publish',
    'events.amazonaws.com sqs:SendMessage',
    'logging.s3.amazonaws.com s3:PutObject',
  ]);
});

describe('what is refused', () => {
  const { stacks } = synthesise(prod);
  /** The templates without the statements of policies, and without the permissions, that name a service. */
  const without = (service: string): Template[] =>
    stacks.map(({ template: { Resources } }) => ({
      Resources: Object.fromEntries(
        Object.entries(structuredClone(Resources)).flatMap(([id, resource]) => {
          const { PolicyDocument, Principal } = resource.Properties ?? {};
          if (Principal === service) return [];
          if (PolicyDocument?.Statement) {
            PolicyDocument.Statement = PolicyDocument.Statement.filter(
              (statement: { Principal?: { Service?: string } }) => statement.Principal?.Service !== service,
            );
          }
          return [[id, resource]];
        }),
      ),
    }));

  test.each(['cloudwatch', 'events', 'cloudfront', 'logging.s3'])('what only %s may do', (service) => {
    const found = without(`${service}.amazonaws.com`).flatMap(unreachable);
    expect(found.length).toBeGreaterThan(0);
    for (const sentence of found) expect(sentence).toContain(`${service}.amazonaws.com may not `);
  });
});
