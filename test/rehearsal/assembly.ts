import { globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { TEST_ACCOUNT, TEST_REGION } from '#test/helpers/aws-account.ts';
import { creationOrder } from '#test/helpers/creation-order.ts';
import { gatewayArnOf } from '#test/helpers/fake-ecs/gateways.ts';
import type { Resource, Template } from '#test/helpers/templates.ts';

/** Resource of a synthesized stack with its references resolved. */
export interface Deployed {
  readonly id: string;
  readonly type: string;
  // biome-ignore lint/suspicious/noExplicitAny: what CloudFormation knows of a resource is not typed here.
  readonly properties: any;
  /** ARN or name that policies and targets use. */
  readonly arn: string;
  readonly stack: string;
}

/** The output of `cdk synth`: every resource of every stack, in an order in which a deployment may create them. */
export interface Assembly {
  readonly resources: readonly Deployed[];
  /** Returns the resources of one CloudFormation type. */
  of(type: string): Deployed[];
  /** Version numbers by version resource, assigned as Lambda does. */
  readonly versions: ReadonlyMap<string, number>;
  /** Returns the folder of an asset by its key in the bootstrap bucket. */
  assetFolder(s3Key: string): string;
}

/** Reads the stacks synthesized into `folder`, which are deployed after those of `before`. */
export function readAssembly(
  folder: string,
  stacks: readonly { name: string; template: Template }[],
  before?: Assembly,
): Assembly {
  const exports = new Map<string, unknown>();
  const versions = new Map(stacks.flatMap(({ template }) => [...versionsOf(template, before)]));
  const resolverOf = (template: Template) => resolverWith(template, exports, versions);
  for (const { template } of stacks) {
    for (const { Export, Value } of Object.values((template.Outputs ?? {}) as Record<string, Output>)) {
      if (Export !== undefined) exports.set(Export.Name, resolverOf(template)(Value));
    }
  }
  const resources = stacks.flatMap(({ name, template }) => {
    const resolve = resolverOf(template);
    return creationOrder(template).map((id) => ({
      id,
      type: template.Resources[id]!.Type,
      properties: resolve(template.Resources[id]!.Properties ?? {}),
      arn: String(resolve({ 'Fn::GetAtt': [id, 'Arn'] })),
      stack: name,
    }));
  });
  const assets = new Map<string, string>();
  for (const file of globSync(join(folder, '*.assets.json'))) {
    const { files } = JSON.parse(readFileSync(file, 'utf8'));
    for (const { source, destinations } of Object.values<AssetFile>(files)) {
      for (const { objectKey } of Object.values(destinations)) assets.set(objectKey, join(folder, source.path));
    }
  }
  return {
    resources,
    of: (type) => resources.filter((resource) => resource.type === type),
    versions,
    assetFolder(s3Key) {
      const found = assets.get(s3Key);
      if (found === undefined) throw new Error(`no asset of the assembly has the key ${s3Key}`);
      return found;
    },
  };
}

/** Existing versions keep their number; a new one gets the function's next number. */
function versionsOf({ Resources }: Template, before: Assembly | undefined): [id: string, number: number][] {
  const ids = Object.keys(Resources).filter((id) => Resources[id]!.Type === 'AWS::Lambda::Version');
  const functionOf = (id: string): string => id.split('CurrentVersion')[0]!;
  return ids.map((id) => {
    const known = [...(before?.versions ?? [])].filter(([other]) => functionOf(other) === functionOf(id));
    return [id, before?.versions.get(id) ?? 1 + Math.max(0, ...known.map(([, number]) => number))];
  });
}

interface Output {
  readonly Value: unknown;
  readonly Export?: { readonly Name: string };
}

interface AssetFile {
  readonly source: { readonly path: string };
  readonly destinations: Readonly<Record<string, { readonly objectKey: string }>>;
}

const PSEUDO: Readonly<Record<string, string>> = {
  'AWS::Partition': 'aws',
  'AWS::Region': TEST_REGION,
  'AWS::AccountId': TEST_ACCOUNT,
  'AWS::URLSuffix': 'amazonaws.com',
  'AWS::NoValue': '',
  'AWS::StackId': `arn:aws:cloudformation:${TEST_REGION}:${TEST_ACCOUNT}:stack/platform/51af3dc0-da77-11e4-872e-1234567db123`,
};

/** Types whose `Ref` is their name in the template, and the ARN for each name. */
const NAMED: Readonly<Record<string, readonly [property: string, arn: (name: string) => string]>> = {
  'AWS::Lambda::Function': ['FunctionName', (name) => regional('lambda', `function:${name}`)],
  'AWS::DynamoDB::GlobalTable': ['TableName', (name) => regional('dynamodb', `table/${name}`)],
  'AWS::DynamoDB::Table': ['TableName', (name) => regional('dynamodb', `table/${name}`)],
  'AWS::S3::Bucket': ['BucketName', (name) => `arn:aws:s3:::${name}`],
  'AWS::SQS::Queue': ['QueueName', (name) => regional('sqs', name)],
  'AWS::SNS::Topic': ['TopicName', (name) => regional('sns', name)],
  'AWS::ECS::Cluster': ['ClusterName', (name) => regional('ecs', `cluster/${name}`)],
  'AWS::ECS::TaskDefinition': ['Family', (name) => regional('ecs', `task-definition/${name}:1`)],
  'AWS::ECS::Gateway': ['GatewayName', gatewayArnOf],
  'AWS::Events::Rule': ['Name', (name) => regional('events', `rule/${name}`)],
  'AWS::Scheduler::ScheduleGroup': ['Name', (name) => regional('scheduler', `schedule-group/${name}`)],
  'AWS::IAM::Role': ['RoleName', (name) => `arn:aws:iam::${TEST_ACCOUNT}:role/${name}`],
  'AWS::CloudWatch::Alarm': ['AlarmName', (name) => regional('cloudwatch', `alarm:${name}`)],
  'AWS::Logs::LogGroup': ['LogGroupName', (name) => regional('logs', `log-group:${name}:*`)],
};
const regional = (service: string, rest: string): string => `arn:aws:${service}:${TEST_REGION}:${TEST_ACCOUNT}:${rest}`;
/** Types whose `Ref` is their ARN. */
const REF_IS_ARN = new Set(['AWS::SNS::Topic', 'AWS::ECS::TaskDefinition']);

/**
 * Resolves intrinsic functions as CloudFormation does, as far as the template allows: a value known only after
 * deployment becomes its logical id, or `<id>.<attribute>`.
 */
function resolverWith(
  template: Template,
  exports: ReadonlyMap<string, unknown>,
  versions: ReadonlyMap<string, number>,
): (value: unknown) => unknown {
  const nameOf = (id: string, resource: Resource): string => {
    const property = NAMED[resource.Type]?.[0];
    const given = property === undefined ? undefined : resource.Properties?.[property];
    return given === undefined ? id : String(resolve(given));
  };
  const ref = (id: string): string => {
    const resource = template.Resources[id];
    if (resource === undefined) return PSEUDO[id] ?? id;
    if (REF_IS_ARN.has(resource.Type)) return attribute(id, 'Arn');
    if (resource.Type !== 'AWS::SQS::Queue') return nameOf(id, resource);
    return `https://sqs.${TEST_REGION}.amazonaws.com/${TEST_ACCOUNT}/${nameOf(id, resource)}`;
  };
  const attribute = (id: string, name: string): string => {
    const resource = template.Resources[id];
    const arn = resource && NAMED[resource.Type]?.[1];
    if (name === 'Arn' && arn) return arn(nameOf(id, resource));
    // DynamoDB adds the time of its creation.
    if (name === 'StreamArn' && arn) return `${arn(nameOf(id, resource))}/stream/latest`;
    if (name === 'Version' && versions.has(id)) return String(versions.get(id));
    if (name === 'QueueName' && resource) return nameOf(id, resource);
    if (name === 'DomainName' && resource?.Type === 'AWS::Lambda::WebFunctionEndpoint')
      return `${resolve(resource.Properties.EndpointName)}.lambda-web.${TEST_REGION}.on.aws`;
    return `${id}.${name}`;
  };
  const substituted = (text: string, values: Readonly<Record<string, unknown>>): string =>
    text.replaceAll(/\$\{([\w:.]+)\}/g, (_, name: string) => {
      if (name in values) return String(resolve(values[name]));
      const [id = '', ...path] = name.split('.');
      return path.length === 0 ? ref(id) : attribute(id, path.join('.'));
    });
  // biome-ignore lint/suspicious/noExplicitAny: arguments of any intrinsic function.
  const intrinsics: Record<string, (argument: any) => unknown> = {
    Ref: ref,
    'Fn::GetAtt': (path) => attribute(...((Array.isArray(path) ? path : path.split(/\.(.*)/, 2)) as [string, string])),
    'Fn::Join': ([separator, parts]) => (resolve(parts) as unknown[]).join(separator),
    'Fn::Sub': (argument) =>
      Array.isArray(argument) ? substituted(argument[0], argument[1]) : substituted(argument, {}),
    'Fn::Select': ([index, list]) => (resolve(list) as unknown[])[Number(index)],
    'Fn::Split': ([separator, text]) => String(resolve(text)).split(separator),
    'Fn::ImportValue': (name) => {
      if (!exports.has(name)) throw new Error(`no stack exports ${name}`);
      return exports.get(name);
    },
    'Fn::GetAZs': () => ['a', 'b', 'c'].map((zone) => TEST_REGION + zone),
  };
  const resolve = (value: unknown): unknown => {
    if (typeof value !== 'object' || value === null) return value;
    if (Array.isArray(value)) return value.map(resolve);
    const entries = Object.entries(value);
    const [[name, argument] = []] = entries;
    const intrinsic = entries.length === 1 && name !== undefined ? intrinsics[name] : undefined;
    if (intrinsic) return intrinsic(argument);
    if (entries.length === 1 && name?.startsWith('Fn::')) throw new Error(`no value for ${JSON.stringify(value)}`);
    return Object.fromEntries(entries.map(([key, member]) => [key, resolve(member)]));
  };
  return resolve;
}
