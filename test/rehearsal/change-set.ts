import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { isDeepStrictEqual } from 'node:util';
import type { Alarms } from './alarms.ts';
import type { Assembly, Deployed } from './assembly.ts';
import type { Lambda } from './lambda.ts';
import type { RestApi } from './rest-api.ts';

export interface Deployment {
  /** Reason for the rollback, if CloudFormation rolled back. */
  readonly failure?: string;
  /** `<create, update or delete> <type>` in order, including the rollback. */
  readonly steps: readonly string[];
}

/** Targets that a deployment changes, and properties of custom resources that differ in the rehearsal. */
export interface Changed {
  readonly lambda: Lambda;
  readonly api: RestApi;
  readonly alarms: Alarms;
  readonly overrides: Readonly<Record<string, unknown>>;
}

/** Types whose changes have no effect in the rehearsal. */
const UNSEEN =
  /^AWS::(CDK::Metadata|CloudFormation::|CodeBuild::|ECR::|Lambda::(LayerVersion|WebFunction)|S3::|Logs::MetricFilter)|^Custom::S3ObjectCopy$/;

/**
 * Applies a deployment over another as CloudFormation does, stack by stack in dependency order: creates and updates
 * resources that differ, and calls custom resources. On a failure it restores the updated resources of that stack and
 * deletes the created ones; later stacks stay unchanged. Resources that the templates no longer have stay, as versions
 * of functions do.
 */
export async function applyChanges(before: Assembly, after: Assembly, changed: Changed): Promise<Deployment> {
  const steps: string[] = [];
  const known = new Map(before.resources.map((each) => [keyOf(each), each]));
  for (const stack of new Set(after.resources.map((each) => each.stack))) {
    const done: Deployed[] = [];
    for (const resource of after.resources.filter((each) => each.stack === stack)) {
      const old = known.get(keyOf(resource));
      if (old !== undefined && isDeepStrictEqual(old.properties, resource.properties)) continue;
      steps.push(`${old ? 'update' : 'create'} ${resource.type}`);
      done.push(resource);
      const failure = await apply(resource, after, changed, old);
      if (failure === undefined) continue;
      for (const each of done) {
        const back = known.get(keyOf(each));
        steps.push(`${back ? 'update' : 'delete'} ${each.type}`);
        if (back) await apply(back, before, changed, each);
        else remove(each, after, changed);
      }
      return { failure, steps };
    }
  }
  return { steps };
}

const keyOf = ({ stack, id }: Deployed): string => `${stack} ${id}`;

/** Applies a change; resolves with the reason if a custom resource failed. */
async function apply(
  resource: Deployed,
  assembly: Assembly,
  { lambda, api, alarms, overrides }: Changed,
  old: Deployed | undefined,
): Promise<string | undefined> {
  switch (resource.type) {
    case 'AWS::Lambda::Function':
      lambda.update(resource, assembly);
      return undefined;
    case 'AWS::Lambda::Version':
      lambda.publish(resource, assembly);
      return undefined;
    case 'AWS::ApiGateway::Deployment':
      api.deploy(assembly);
      return undefined;
    case 'AWS::ApiGateway::Stage':
      api.move(resource);
      return undefined;
    case 'AWS::CloudWatch::Alarm':
      alarms.update(assembly);
      return undefined;
    // The API's document takes effect once it is deployed.
    case 'AWS::ApiGateway::RestApi':
      return undefined;
  }
  if (UNSEEN.test(resource.type)) return undefined;
  if (!resource.type.startsWith('Custom::')) throw new Error(`the rehearsal changes no ${resource.type}`);
  const { ServiceToken, ...properties } = resource.properties;
  return callCustomResource(lambda, ServiceToken, {
    RequestType: old ? 'Update' : 'Create',
    StackId: resource.stack,
    RequestId: crypto.randomUUID(),
    LogicalResourceId: resource.id,
    PhysicalResourceId: resource.id,
    ResourceType: resource.type,
    ResourceProperties: { ...properties, ...overrides },
    ...(old && { OldResourceProperties: old.properties }),
  });
}

/** Removes a version with the deployment that created it; other removed resources are unreferenced. */
function remove(resource: Deployed, assembly: Assembly, { lambda }: Changed): void {
  if (resource.type === 'AWS::Lambda::Version') lambda.unpublish(resource, assembly);
}

async function callCustomResource(lambda: Lambda, functionArn: string, event: object): Promise<string | undefined> {
  const answered = Promise.withResolvers<{ Status: string; Reason?: string }>();
  const server = createServer(async (request, response) => {
    answered.resolve(JSON.parse(Buffer.concat(await request.toArray()).toString()));
    response.end();
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  try {
    const ResponseURL = `http://127.0.0.1:${(server.address() as AddressInfo).port}/`;
    const { payload } = await lambda.invoke(functionArn, { ...event, ResponseURL });
    await Array.fromAsync(payload);
    const { Status, Reason = 'it failed' } = await answered.promise;
    return Status === 'SUCCESS' ? undefined : Reason;
  } finally {
    server.close();
  }
}
