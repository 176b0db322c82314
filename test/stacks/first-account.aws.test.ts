import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { runInNewContext } from 'node:vm';
import { describe, expect, test } from 'vitest';
import { parseAwsConfig } from '#aws/config.ts';
import { routes } from '#core/api/routes.ts';
import { defineStage, type StageFile } from '#lib/config.ts';
import { blocksOf, ROOT } from '#test/docs/pages.ts';
import { environmentOf, rendered, type Synthesis, synthesise, type Template } from '#test/helpers/templates.ts';
import { BOOTSTRAP_VERSION, STACKS } from '../../scripts/doctor/checks.ts';
import { needsOf } from '../../scripts/doctor/quotas.ts';

/** The stage file of the page, as its reader writes it. */
const [block] = blocksOf('docs/first-account.md').filter(({ info }) => info === 'ts');
const text = /defineStage\((\{[\s\S]*\})\)/.exec(block!.text)![1]!;
const members = runInNewContext(`(${text})`) as Parameters<typeof defineStage>[0];

/** Steps of the page: what each one changes in the stage file, and the stack that it adds. */
const STEPS = [
  { change: {}, adds: undefined },
  { change: { sandbox: { kind: 'fargate' } }, adds: 'compute' },
  { change: { web: { kind: 'on' } }, adds: 'web' },
  { change: { services: { kind: 'on' } }, adds: 'services' },
] as const;

const stages = STEPS.map((_, step) =>
  defineStage(Object.assign({}, members, ...STEPS.slice(0, step + 1).map(({ change }) => change))),
);
const stageAt = (step: number): StageFile => stages[step]!;

const templateOf = (synthesis: Synthesis, name: string): Template | undefined =>
  synthesis.stacks.find((stack) => stack.name === `platform-first-${name}`)?.template;
const namesOf = ({ stacks }: Synthesis) => stacks.map(({ name }) => name.replace('platform-first-', ''));

/** Returns `<type> <what happened>` of the resources that differ. */
function changesBetween(before: Template, after: Template): string[] {
  const ids = new Set([...Object.keys(before.Resources), ...Object.keys(after.Resources)]);
  const changes = [...ids].flatMap((id) => {
    const [was, is] = [before.Resources[id], after.Resources[id]];
    if (JSON.stringify(was) === JSON.stringify(is)) return [];
    return `${(was ?? is)!.Type} ${was === undefined ? 'added' : is === undefined ? 'removed' : 'changed'}`;
  });
  return [...new Set(changes)].sort();
}

/** What a release does to the API in any case: other settings of functions make new versions of them. */
const RELEASE = [
  'AWS::ApiGateway::Stage changed',
  'AWS::CloudWatch::Alarm changed',
  'AWS::IAM::Policy changed',
  'AWS::Lambda::Function changed',
  'AWS::Lambda::Version added',
  'AWS::Lambda::Version removed',
  'Custom::Release changed',
];

describe('the stage of the first account', () => {
  test('begins without sandboxes, services and CloudFront', () => {
    expect(members).toMatchObject({ sandbox: { kind: 'none' }, services: { kind: 'off' }, web: { kind: 'off' } });
    expect(namesOf(synthesise(stageAt(0))).sort()).toEqual(['api', 'data', 'observability', 'schedules']);
  });

  test('each step adds one stack, and leaves the others and their data as they are', { timeout: 300_000 }, () => {
    for (const [step, { adds }] of STEPS.entries()) {
      if (adds === undefined) continue;
      const [before, after] = [synthesise(stageAt(step - 1)), synthesise(stageAt(step))];
      expect(namesOf(after).filter((name) => !namesOf(before).includes(name))).toEqual([adds]);
      for (const name of namesOf(before)) {
        const changes = changesBetween(templateOf(before, name)!, templateOf(after, name)!);
        // Functions learn of the new part; alarms of the new part join the others.
        if (name === 'api') expect(RELEASE, adds).toEqual(expect.arrayContaining(changes));
        else if (name === 'observability')
          expect(
            changes.filter((change) => / removed$/.test(change)),
            adds,
          ).toEqual([]);
        // Pages of CloudFront upload large files to the bucket.
        else if (name === 'data' && adds === 'web') expect(changes).toEqual(['AWS::S3::Bucket changed']);
        else expect(changes, `${name} when ${adds} is added`).toEqual([]);
      }
    }
  });

  test('the address of the API stays the same in every step', () => {
    const addresses = STEPS.map((_, step) => rendered(outputOf(synthesise(stageAt(step)).api, 'BaseUrl')));
    expect(new Set(addresses).size).toBe(1);
    expect(addresses[0]).toMatch(/\.execute-api\..*\/first$/);
  });
});

const outputOf = (template: Template, name: string): unknown =>
  (template.Outputs as Record<string, { Value: unknown }>)[name]!.Value;

test('each step of the page says what else shows it', () => {
  const steps = readFileSync(join(ROOT, 'docs/first-account.md'), 'utf8').split(/^## /m).slice(1);
  expect(steps.map((step) => Number.parseInt(step, 10))).toEqual(steps.map((_, i) => i + 1));
  const marks = steps.map((step) => /^.*\n\n\*([^*]+)\*/.exec(step)?.[1] ?? '');
  for (const [i, mark] of marks.entries()) expect(mark, steps[i]).toMatch(/rehearsal|doctor|only an account|test\//);
  // A test that a mark names exists.
  for (const [file] of marks.join(' ').matchAll(/test\/[\w./-]+\.ts/g))
    expect(existsSync(join(ROOT, file)), file).toBe(true);
});

describe('the address for programs is never CloudFront’s', () => {
  const certificateArn = 'arn:aws:acm:eu-west-1:111122223333:certificate/0a1b';
  const web = {
    domain: { name: 'agents.example.org', certificateArn: certificateArn.replace('eu-west-1', 'us-east-1') },
  };
  const domain = { name: 'api.example.org', certificateArn };
  const execute = /\.execute-api\.eu-west-1\.amazonaws\.com\/form\w$/;
  const off = { kind: 'off' as const };
  test.each<[string, Partial<typeof members>, RegExp]>([
    ['forma', {}, execute],
    ['formb', { web: off }, execute],
    ['formc', { web }, execute],
    ['formd', { web, domain }, /^https:\/\/api\.example\.org$/],
    ['forme', { web: off, domain }, /^https:\/\/api\.example\.org$/],
    ['formf', { web: {}, baseUrl: 'https://example.org/agents' }, execute],
    ['formg', { web: off, baseUrl: 'https://example.org/agents' }, /^https:\/\/example\.org\/agents$/],
    ['formh', { web: off, services: off, access: { vpcEndpointIds: ['vpce-0123456789abcdef0'] } }, execute],
    [
      'formi',
      { web: off, services: off, domain: { ...domain, mtls: { truststore: 's3://acme/authorities.pem' } } },
      /^https:\/\/api\.example\.org$/,
    ],
  ])('%s', { timeout: 120_000 }, (name, change, address) => {
    const { api, services } = synthesise(defineStage({ ...members, services: {}, ...change, name }));
    expect(rendered(outputOf(api, 'BaseUrl'))).toMatch(address);
    // Addresses of webhooks, of events, and those in the variables of agents and services.
    for (const fn of ['calls', 'schedules', 'schedule-fired', 'services', 'workspaces']) {
      const { baseUrl, callUrl = baseUrl } = parseAwsConfig(environmentOf(api, fn));
      expect(callUrl, fn).toMatch(address);
    }
    expect(JSON.stringify(services ?? {})).not.toMatch(/cloudfront/i);
  });
});

describe('what the doctor knows of a stage', () => {
  test('the version of the bootstrap stack', () => {
    const { app } = synthesise(stageAt(3));
    const required = app.synth().stacks.map(({ manifest }) => {
      return (manifest.properties as { requiresBootstrapStackVersion?: number }).requiresBootstrapStackVersion;
    });
    expect(new Set(required)).toEqual(new Set([BOOTSTRAP_VERSION]));
  });

  test('its stacks', () => {
    expect([...STACKS].sort()).toEqual(namesOf(synthesise(stageAt(3))).sort());
  });

  test('resources of its API, and what it takes of networks and builds', () => {
    const synthesis = synthesise(stageAt(3));
    const [body] = Object.values(synthesis.api.Resources).filter(({ Type }) => Type === 'AWS::ApiGateway::RestApi');
    const paths = Object.keys(body!.Properties.Body.paths);
    expect(new Set(routes.map(({ path }) => path))).toEqual(new Set(paths));
    const prefixes = paths.flatMap((path) => path.split('/').map((__, i, parts) => parts.slice(0, i + 1).join('/')));
    const { apiResources } = needsOf(stageAt(3));
    expect(apiResources).toBe(new Set(prefixes).size);
    expect(readFileSync(join(ROOT, 'docs/deploy.md'), 'utf8')).toContain(
      `| API Gateway, resources of an API | 300 | ${apiResources} |`,
    );
    const count = (type: string) =>
      synthesis.stacks.flatMap(({ template }) => Object.values(template.Resources)).filter(({ Type }) => Type === type)
        .length;
    expect(count('AWS::EC2::VPC')).toBe(needsOf(stageAt(3)).networks.length);
    expect(count('AWS::EC2::InternetGateway')).toBe(2);
    expect(count('Custom::CompileCache')).toBeGreaterThanOrEqual(needsOf(stageAt(3)).executionsAtOnce);
  });
});
