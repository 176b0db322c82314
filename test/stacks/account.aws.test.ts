import { readdirSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { App, Stage as CdkStage } from 'aws-cdk-lib';
import { describe, expect, test } from 'vitest';
import { defineStage } from '#lib/config.ts';
import { MAX_SETTINGS_BYTES } from '#lib/limits.ts';
import { AgentPlatform } from '#lib/platform.ts';
import { createdBefore } from '#test/helpers/creation-order.ts';
import {
  emptyFolders,
  type Resource,
  rendered,
  type Synthesis,
  synthesise,
  TEST_ACCOUNT,
  type Template,
} from '#test/helpers/templates.ts';
import { type Assembly, type Deployed, readAssembly } from '#test/rehearsal/assembly.ts';
import cdkJson from '../../cdk.json' with { type: 'json' };
import { stage as dev } from '../../stages/dev.ts';
import { stage as prod } from '../../stages/prod.ts';
import { everythingAsked } from './everything-asked.ts';

/** Errors that an account would report by rules that no service checks before a deployment. */
const stages: Record<string, Synthesis> = {
  'a stage to try things in': synthesise(dev),
  'a stage with all that it may ask for': synthesise(everythingAsked),
  'a stage with MicroVMs': synthesise(
    defineStage({ ...dev, name: 'vms', sandbox: { kind: 'microvm' }, setsLoggingRole: false }),
  ),
  'a stage that keeps its data, with addresses of AWS': synthesise(defineStage({ ...prod, name: 'kept' })),
};

type Named = readonly [id: string, resource: Resource, template: Template];
const allOf = ({ stacks }: Synthesis): Named[] =>
  stacks.flatMap(({ template }) =>
    Object.entries(template.Resources).map(([id, each]) => [id, each, template] as const),
  );

/** Returns the explicit names of a resource in the template: `RoleName` of a role, or `Name`, also one level down. */
function namesOf({ Type, Properties = {} }: Resource): unknown[] {
  const own = `${Type.split('::').at(-1)}Name`;
  const isName = (key: string) => ['Name', own, 'TableName'].includes(key);
  const named = (properties: object) => Object.entries(properties).filter(([key]) => isName(key));
  const configs = Object.entries(Properties).filter(([key]) => key.endsWith('Config'));
  return [...named(Properties), ...configs.flatMap(([, config]) => named(config as object))].map(([, name]) => name);
}

/** Services whose names are unique per account or worldwide, not per Region. */
const ACCOUNT_WIDE = /^AWS::(Budgets|CloudFront|IAM|Route53|S3)::|^AWS::(CloudWatch::Dashboard|ECS::Gateway)$/;
/** Types that are part of a role or bucket, or named by the operator. */
const NAMED_BY_ANOTHER = /^AWS::(IAM::Policy|Route53::RecordSet|S3::BucketPolicy)$/;

/** CloudFormation takes templates of 1 MB. */
const MAX_TEMPLATE_BYTES = 600_000;

describe.each(Object.entries(stages))('%s', (_, synthesis) => {
  test('has templates far below the size that CloudFormation takes', () => {
    const files = readdirSync(synthesis.folder).filter((name) => name.endsWith('.template.json'));
    expect(files.length).toBeGreaterThan(4);
    const sizes = files.map((name) => [name, statSync(join(synthesis.folder, name)).size] as const);
    expect(sizes.filter(([, bytes]) => bytes >= MAX_TEMPLATE_BYTES)).toEqual([]);
  });

  test('has environments that leave room for the settings that a stage may have', () => {
    // Without the names of resources that only a deployment knows, for which the remaining bytes are.
    const sizes = allOf(synthesis).flatMap(([, { Type, Properties }]) => {
      if (Type !== 'AWS::Lambda::Function' || Properties.Environment === undefined) return [];
      const own = Object.entries(Properties.Environment.Variables).filter(
        ([name]) => !/^PLATFORM_(TRANSPORTS|EGRESS_|OIDC_)/.test(name),
      );
      return Buffer.byteLength(JSON.stringify(own.map(([name, value]) => [name, rendered(value)])));
    });
    expect(Math.max(...sizes)).toBeGreaterThan(500);
    expect(Math.max(...sizes)).toBeLessThan(4096 - MAX_SETTINGS_BYTES - 150);
  });

  test('can be deployed in a second Region of the account', () => {
    const namesIn = (region: string) =>
      allOf(synthesis)
        .filter(([, { Type }]) => ACCOUNT_WIDE.test(Type) && !NAMED_BY_ANOTHER.test(Type))
        .flatMap(([, resource]) => namesOf(resource))
        .map((name) => rendered(name, region));
    const names = namesIn('eu-west-1');
    expect(names.length).toBeGreaterThan(0);
    expect(namesIn('us-east-1').filter((name) => names.includes(name))).toEqual([]);
  });

  test('can be deployed again after a deployment that failed', () => {
    // A named resource that a failed deployment leaves behind would block the next deployment.
    const left = allOf(synthesis).filter(
      ([, { DeletionPolicy = 'Delete', ...resource }]) =>
        !['Delete', 'RetainExceptOnCreate'].includes(DeletionPolicy) && namesOf(resource).length > 0,
    );
    expect(left.map(([id]) => id)).toEqual([]);
  });

  test('lifts the protection of a gateway first when a deployment fails', () => {
    for (const [id, { Type, Properties }, template] of allOf(synthesis)) {
      if (Type !== 'AWS::ECS::Gateway' || !Properties.DeletionProtection) continue;
      const [lift] = Object.entries(template.Resources).find(([, each]) => each.Type === 'Custom::LiftProtection')!;
      const before = createdBefore(template, id);
      // What is created only then is deleted before, and so is what lifts it; it needs nothing that could fail meanwhile.
      expect([...createdBefore(template, lift)].filter((each) => each !== id && !before.has(each))).toEqual([]);
      const after = Object.keys(template.Resources).filter((other) => createdBefore(template, other).has(id));
      for (const other of after.filter((each) => each !== lift)) {
        expect(createdBefore(template, other).has(lift), other).toBe(true);
      }
    }
  });

  test('creates last what a failed deployment could not delete', () => {
    const isProtected = ({ Properties }: Resource) =>
      JSON.stringify(Properties ?? {}).includes('"DeletionProtectionEnabled":true');
    for (const [id, resource, template] of allOf(synthesis)) {
      if (!isProtected(resource)) continue;
      const others = Object.keys(template.Resources).filter(
        (other) => other !== id && template.Resources[other]!.Type !== 'AWS::CDK::Metadata',
      );
      expect([...createdBefore(template, id)].sort()).toEqual(others.sort());
    }
  });
});

test('one app deploys a stage to two Regions of an account, and no name of the account is taken twice', () => {
  const regions = ['eu-west-1', 'us-east-1'];
  const { bootstrapQualifier: _, permissionsBoundary: __, ...props } = everythingAsked;
  const app = new App({ context: cdkJson.context });
  for (const region of regions) {
    const stage = new CdkStage(app, region, { env: { account: TEST_ACCOUNT, region } });
    new AgentPlatform(stage, 'agents', props, emptyFolders());
  }
  const assembly = app.synth();
  const stacksOf = (region: string) => assembly.getNestedAssembly(`assembly-${region}`).stacks;
  const namesIn = (region: string) =>
    stacksOf(region).flatMap(({ template }: { template: Template }) =>
      Object.values(template.Resources)
        .filter(({ Type }) => ACCOUNT_WIDE.test(Type) && !NAMED_BY_ANOTHER.test(Type))
        .flatMap(namesOf)
        .map((name) => rendered(name, region)),
    );
  expect(stacksOf('eu-west-1').map(({ stackName }) => stackName)).toEqual(
    stacksOf('us-east-1').map(({ stackName }) => stackName),
  );
  for (const region of regions) {
    for (const { environment } of stacksOf(region))
      expect(environment).toMatchObject({ account: TEST_ACCOUNT, region });
  }
  const [first, second] = regions.map(namesIn) as [string[], string[]];
  expect(first.length).toBeGreaterThan(5);
  expect(first.filter((name) => second.includes(name))).toEqual([]);
});

/** Undeclared dependencies of resources, each with its reason. */
const NEEDS: Readonly<Record<string, (resource: Deployed, assembly: Assembly) => Deployed[]>> = {
  // WAF looks the stage up by its ARN.
  'AWS::WAFv2::WebACLAssociation': ({ properties }, { of }) =>
    of('AWS::ApiGateway::Stage').filter(({ properties: { RestApiId, StageName } }) =>
      properties.ResourceArn.endsWith(`/restapis/${RestApiId}/stages/${StageName}`),
    ),
  'AWS::ApiGateway::BasePathMapping': (_, { of }) => of('AWS::ApiGateway::Stage'),
  // Logging requires the account's role. The methods' functions, and the role to call them, must exist.
  'AWS::ApiGateway::Stage': (_, assembly) => {
    const { of } = assembly;
    const api = JSON.stringify(of('AWS::ApiGateway::RestApi').map(({ properties }) => properties.Body));
    const called = of('AWS::Lambda::Function').filter(({ properties }) =>
      api.includes(`:function:${properties.FunctionName}:`),
    );
    const [, caller] = /"credentials":"([^"]+)"/.exec(api)!;
    return [...of('AWS::ApiGateway::Account'), ...called, ...rightsOf(caller!, assembly)];
  },
  'AWS::EC2::Route': ({ properties, stack }, { of }) =>
    properties.GatewayId === undefined
      ? []
      : of('AWS::EC2::VPCGatewayAttachment').filter((each) => each.stack === stack),
  'AWS::EC2::FlowLog': ({ properties }, assembly) => rightsOf(properties.DeliverLogsPermissionArn, assembly),
  // Lambda uses its own rights to attach a function to the network.
  'AWS::Lambda::Function': ({ properties }, assembly) =>
    properties.VpcConfig === undefined ? [] : rightsOf(properties.Role, assembly),
  'AWS::Lambda::EventSourceMapping': ({ properties }, assembly) => [
    ...assembly.of('AWS::SQS::Queue').filter(({ arn }) => arn === properties.EventSourceArn),
    ...rightsOfFunction(properties.FunctionName, assembly),
  ],
  // The load balancers need a route to the internet and the rules of their security groups.
  'AWS::ECS::Gateway': ({ stack }, { of }) =>
    ['AWS::EC2::Route', 'AWS::EC2::SecurityGroupIngress', 'AWS::EC2::SecurityGroupEgress']
      .flatMap((type) => of(type))
      .filter((each) => each.stack === stack),
  'AWS::ElasticLoadBalancingV2::LoadBalancer': ({ stack }, { of }) =>
    of('AWS::EC2::Route').filter((each) => each.stack === stack),
  'AWS::Lambda::MicrovmImage': ({ properties }, assembly) => rightsOf(properties.BuildRoleArn, assembly),
  'AWS::Logs::MetricFilter': ({ properties }, { of }) =>
    of('AWS::Logs::LogGroup').filter((group) => group.properties.LogGroupName === properties.LogGroupName),
  // Another resource starts the process that signals.
  'AWS::CloudFormation::WaitCondition': ({ stack }, { of }) => of('Custom::AWS').filter((each) => each.stack === stack),
};
/** CloudFormation calls its function at once. */
const needsOfCustomResource = ({ properties }: Deployed, assembly: Assembly): Deployed[] =>
  rightsOfFunction(properties.ServiceToken, assembly);

const rightsOf = (role: string, { of }: Assembly): Deployed[] => {
  const found = of('AWS::IAM::Role').find(({ arn }) => arn === role)!;
  const name = found.arn.split('/').at(-1)!;
  return of('AWS::IAM::Policy').filter(
    ({ stack, properties }) => stack === found.stack && properties.Roles.includes(name),
  );
};
const rightsOfFunction = (name: string, assembly: Assembly): Deployed[] => {
  const fn = assembly
    .of('AWS::Lambda::Function')
    .find(({ id, arn }) => [arn, id, arn.split(':').at(-1)].includes(name));
  return rightsOf(fn!.properties.Role, assembly);
};

/** Puts the resources of one stack first, because unnamed resources of two stacks may have the same logical id. */
const seenFrom = (assembly: Assembly, stack: string): Assembly => ({
  ...assembly,
  of: (type) => assembly.of(type).sort((a, b) => Number(b.stack === stack) - Number(a.stack === stack)),
});

describe.each(Object.entries(stages))('%s is created in an order in which', (_, { folder, stacks }) => {
  const assembly = readAssembly(folder, stacks);
  const stacksBefore = (name: string): string[] => {
    const { after } = stacks.find((each) => each.name === name)!;
    return after.flatMap((each) => [each, ...stacksBefore(each)]);
  };

  test('everything exists that a resource needs', () => {
    const missing: string[] = [];
    let checked = 0;
    for (const resource of assembly.resources) {
      const needs = resource.type.startsWith('Custom::') ? needsOfCustomResource : NEEDS[resource.type];
      if (needs === undefined) continue;
      const { template } = stacks.find(({ name }) => name === resource.stack)!;
      const before = createdBefore(template, resource.id);
      const earlier = stacksBefore(resource.stack);
      for (const needed of needs(resource, seenFrom(assembly, resource.stack))) {
        checked++;
        const exists = needed.stack === resource.stack ? before.has(needed.id) : earlier.includes(needed.stack);
        if (!exists) missing.push(`${resource.type} ${resource.id} needs ${needed.type} ${needed.id}`);
      }
    }
    expect(missing).toEqual([]);
    expect(checked).toBeGreaterThan(50);
  });
});

describe('the account', () => {
  const { stacks, compute, services } = stages['a stage with all that it may ask for']!;
  const rolesOf = (from: Synthesis['stacks']) =>
    from.flatMap(({ template }) => Object.values(template.Resources).filter(({ Type }) => Type === 'AWS::IAM::Role'));

  test('may demand a permissions boundary of every role', () => {
    const roles = rolesOf(stacks);
    expect(roles.length).toBeGreaterThan(20);
    for (const { Properties } of roles) {
      expect(rendered(Properties.PermissionsBoundary)).toBe('arn:aws:iam::111122223333:policy/AgentPlatformBoundary');
    }
    for (const { Properties } of rolesOf(stages['a stage to try things in']!.stacks)) {
      expect(Properties.PermissionsBoundary).toBeUndefined();
    }
  });

  test('may have been bootstrapped under a qualifier', () => {
    for (const { template } of stacks) {
      const { Parameters } = template as Template & { Parameters: Record<string, { Default: string }> };
      expect(Parameters.BootstrapVersion!.Default).toBe('/cdk-bootstrap/agents/version');
    }
  });

  test('may have a role already with which API Gateway writes logs', () => {
    const { api } = stages['a stage with MicroVMs']!;
    const types = Object.values(api.Resources).map(({ Type }) => Type);
    expect(types).not.toContain('AWS::ApiGateway::Account');
  });

  test('may offer the services in certain zones only', () => {
    const zones = ['eu-west-1a', 'eu-west-1b'];
    const zonesOf = (template: Template) =>
      Object.values(template.Resources)
        .filter(({ Type }) => Type === 'AWS::EC2::Subnet')
        .map(({ Properties }) => Properties.AvailabilityZone);
    expect(zonesOf(compute!).sort()).toEqual([...zones, ...zones].sort());
    expect(zonesOf(services!).sort()).toEqual(zones);
  });
});

test('the bootstrap that the pages tell leaves the bootstrap of other apps alone', () => {
  const pages = ['deploy.md', 'multi-region.md'].map((name) =>
    readFileSync(new URL(`../../docs/${name}`, import.meta.url), 'utf8'),
  );
  // A qualifier renames roles and bucket, but their stack is always CDKToolkit.
  const commands = pages.flatMap((page) =>
    [...page.matchAll(/cdk -- bootstrap aws:[^`]+/g)].map(([command]) => command),
  );
  expect(commands.length).toBeGreaterThan(1);
  for (const command of commands) {
    expect(command).toContain('--qualifier agents');
    expect(command).toContain('--toolkit-stack-name CDKToolkit-agents');
  }
});

describe.each(['docs/deploy.md', 'docs/first-account.md'])('%s prepares an empty account', (page) => {
  const text = readFileSync(new URL(`../../${page}`, import.meta.url), 'utf8');
  const places = (pattern: RegExp) => [...text.matchAll(pattern)].map(({ index }) => index);

  test('with all that must be there before the first deployment', () => {
    const [deployment] = places(/npm run cdk -- deploy /g);
    for (const needed of [
      /npm run cdk -- bootstrap aws:/g,
      /aws iam create-service-linked-role/g,
      /account must be verified before you can add new\s+CloudFront resources/g,
    ]) {
      expect(places(needed)[0], String(needed)).toBeLessThan(deployment!);
    }
    // AWS creates a service-linked role in the account for each of these services.
    for (const service of ['ecs', 'ecs.application-autoscaling', 'elasticloadbalancing']) {
      expect(text).toMatch(new RegExp(`for service in [a-z. -]*\\b${RegExp.escape(service)}\\b`));
    }
  });
});
