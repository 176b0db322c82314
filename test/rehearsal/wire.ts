import { TEST_ACCOUNT, TEST_REGION } from '#test/helpers/aws-account.ts';
import { withDependent } from './dependent-actions.ts';
import type { Ask } from './iam.ts';

/** Request as received over the wire. */
export interface WireRequest {
  readonly method: string;
  readonly url: URL;
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  readonly body: Buffer;
}

export const regional = (service: string, rest: string): string =>
  `arn:aws:${service}:${TEST_REGION}:${TEST_ACCOUNT}:${rest}`;
export const fullArn = (text: string, arn: (name: string) => string): string =>
  text.startsWith('arn:') ? text : arn(text);

/** ARN of a table's stream; on AWS its last part is the time of its creation. */
const streamArnOf = (table: string): string => regional('dynamodb', `table/${table}/stream/latest`);

// biome-ignore lint/suspicious/noExplicitAny: the input of any action.
type Input = any;
export type Reader = (request: WireRequest) => Ask[];

/** Reads requests that name their action in `X-Amz-Target` and have a JSON body. */
export const jsonService =
  (service: string, asksOf: (action: string, input: Input) => Ask[]): Reader =>
  ({ headers, body }) => {
    const input: Input = JSON.parse(body.toString());
    const asks = asksOf(String(headers['x-amz-target']).split('.').at(-1)!, input).map((ask) => ({
      ...ask,
      action: ask.action.includes(':') ? ask.action : `${service}:${ask.action}`,
    }));
    return withDependent(asks, input);
  };

/**
 * Readers that return the IAM rights a request needs, by the service's signing name. Add a row for each new service,
 * from its page in the Service Authorization Reference, which lists the resource of each action.
 */
export const WIRE: Readonly<Record<string, Reader>> = {
  dynamodb: jsonService('dynamodb', (action, input) => {
    const table = (name: string, index?: string) =>
      fullArn(name, (plain) => regional('dynamodb', `table/${plain}`)) + (index ? `/index/${index}` : '');
    if (action === 'ListStreams') return [{ action, resource: '*' }];
    if (input.StreamArn !== undefined) return [{ action, resource: streamArnOf(input.StreamArn.split('/')[1]) }];
    if (action === 'BatchGetItem' || action === 'BatchWriteItem') {
      return Object.keys(input.RequestItems).map((name) => ({ action, resource: table(name) }));
    }
    if (!action.startsWith('Transact')) return [{ action, resource: table(input.TableName, input.IndexName) }];
    // A transaction requires the rights of its parts.
    return input.TransactItems.map((item: Input) => {
      const [[operation, { TableName }]] = Object.entries<Input>(item) as [[string, Input]];
      const part = operation === 'ConditionCheck' ? 'ConditionCheckItem' : `${operation}Item`;
      return { action: part, resource: table(TableName) };
    });
  }),
  s3: ({ method, url, headers }) => {
    const [, bucket, ...rest] = url.pathname.split('/');
    const key = decodeURIComponent(rest.join('/'));
    if (key === '' && method !== 'POST') return [{ action: 's3:ListBucket', resource: `arn:aws:s3:::${bucket}` }];
    const resource = `arn:aws:s3:::${bucket}/${key}`;
    if (method === 'GET' || method === 'HEAD') return [{ action: 's3:GetObject', resource }];
    if (method === 'DELETE') {
      return [{ action: url.searchParams.has('uploadId') ? 's3:AbortMultipartUpload' : 's3:DeleteObject', resource }];
    }
    const source = headers['x-amz-copy-source'];
    const put = withDependent([{ action: 's3:PutObject', resource }], { headers });
    if (source === undefined) return put;
    const from = decodeURIComponent(String(source)).replace(/^\//, '');
    return [...put, { action: 's3:GetObject', resource: `arn:aws:s3:::${from}` }];
  },
  secretsmanager: jsonService('secretsmanager', (action, input) => {
    if (action === 'ListSecrets') return [{ action, resource: '*' }];
    const secrets: string[] = input.SecretIdList ?? [input.SecretId ?? input.Name];
    const asks = secrets.map((name) => ({ action: 'GetSecretValue', resource: secretArn(name) }));
    if (action === 'BatchGetSecretValue') return [{ action, resource: '*' }, ...asks];
    return asks.map((ask) => ({ ...ask, action }));
  }),
  kms: jsonService('kms', (action, { KeyId, EncryptionContext = {} }) => {
    // KMS would check the key that the ciphertext names.
    if (KeyId === undefined) throw new Error(`the rehearsal knows no kms:${action} without a KeyId`);
    const alias: string | undefined = /(^|:)(alias\/.*)$/.exec(KeyId)?.[2];
    return [
      {
        action,
        // Only KMS knows the key of an alias.
        resource: alias ? regional('kms', `key/of-${alias}`) : fullArn(KeyId, (id) => regional('kms', `key/${id}`)),
        context: {
          ...(alias && { 'kms:RequestAlias': [alias] }),
          'kms:EncryptionContextKeys': Object.keys(EncryptionContext),
          ...Object.fromEntries(
            Object.entries<string>(EncryptionContext).map(([name, value]) => [
              `kms:EncryptionContext:${name}`,
              [value],
            ]),
          ),
        },
      },
    ];
  }),
  sqs: jsonService('sqs', (action, { QueueUrl, QueueName }) => [
    { action: action.replace(/Batch$/, ''), resource: regional('sqs', QueueName ?? QueueUrl.split('/').at(-1)) },
  ]),
  events: jsonService('events', (action, input) => {
    if (action !== 'PutEvents') return [{ action, resource: regional('events', `rule/${input.Name ?? input.Rule}`) }];
    const buses = new Set<string>(input.Entries.map(({ EventBusName = 'default' }: Input) => EventBusName));
    return [...buses].map((bus) => ({
      action,
      resource: fullArn(bus, (name) => regional('events', `event-bus/${name}`)),
    }));
  }),
  scheduler: ({ method, url, body }) => {
    const [, collection, name] = url.pathname.split('/').map(decodeURIComponent);
    const input: Input = body.length > 0 ? JSON.parse(body.toString()) : {};
    const group = input.GroupName ?? url.searchParams.get('groupName') ?? 'default';
    const verb = { POST: 'Create', PUT: 'Update', DELETE: 'Delete', GET: 'Get' }[method];
    if (collection === 'schedule-groups') {
      const resource = regional('scheduler', `schedule-group/${name}`);
      return withDependent([{ action: `scheduler:${verb}ScheduleGroup`, resource }], input);
    }
    // ListSchedules has no resource.
    if (name === undefined) return [{ action: 'scheduler:ListSchedules', resource: '*' }];
    const action = `scheduler:${verb}Schedule`;
    const resource = regional('scheduler', `schedule/${group}/${name}`);
    return withDependent([{ action, resource }], input);
  },
  bedrock: ({ url, headers, body }) => {
    if (url.pathname !== '/anthropic/v1/messages') return [{ action: `bedrock:${url.pathname}`, resource: '*' }];
    const { model, stream } = JSON.parse(body.toString());
    const action = `bedrock:InvokeModel${stream ? 'WithResponseStream' : ''}`;
    const [, region] = /Credential=[^/]+\/\d+\/([^/]+)/.exec(String(headers.authorization))!;
    // An inference profile also requires rights on its model in every Region that it may route to.
    const destinations = [region, 'eu-north-1', 'eu-west-3'];
    return [
      { action, resource: `arn:aws:bedrock:${region}:${TEST_ACCOUNT}:inference-profile/${model}` },
      ...destinations.map((destination) => {
        return { action, resource: `arn:aws:bedrock:${destination}::foundation-model/${model.replace(/^eu\./, '')}` };
      }),
    ];
  },
  monitoring: jsonService('cloudwatch', (action, { AlarmName, AlarmNames = [AlarmName] }) =>
    AlarmNames.map((name: string) => ({ action, resource: regional('cloudwatch', `alarm:${name}`) })),
  ),
  apigateway: ({ method, url }) => [
    { action: `apigateway:${method}`, resource: `arn:aws:apigateway:${TEST_REGION}::${url.pathname}` },
  ],
  ses: ({ url, body }) => {
    if (url.pathname !== '/v2/email/outbound-emails') return [{ action: `ses:${url.pathname}`, resource: '*' }];
    const from: string = JSON.parse(body.toString()).FromEmailAddress;
    return [{ action: 'ses:SendEmail', resource: regional('ses', `identity/${from}`) }];
  },
  lambda: ({ method, url }) => {
    const [, layer, version] = /\/layers\/([^/]+)\/versions(\/\d+)?$/.exec(decodeURIComponent(url.pathname)) ?? [];
    if (layer !== undefined) {
      const arn = fullArn(layer, (plain) => regional('lambda', `layer:${plain}`));
      const verb = method === 'DELETE' ? 'Delete' : 'Publish';
      return [{ action: `lambda:${verb}LayerVersion`, resource: arn + (version ?? '').replace('/', ':') }];
    }
    const [, name] = /\/functions\/([^/]+)\/(?:invocations|response-streaming-invocations)$/.exec(url.pathname) ?? [];
    if (name === undefined) throw new Error(`the rehearsal knows no action of Lambda at ${url.pathname}`);
    const resource = fullArn(decodeURIComponent(name), (plain) => regional('lambda', `function:${plain}`));
    return [{ action: 'lambda:InvokeFunction', resource }];
  },
};

/** Secrets Manager appends six characters to the name. */
const secretArn = (name: string): string =>
  fullArn(name, (plain) => regional('secretsmanager', `secret:${plain}-a1B2c3`));
