import { once } from 'node:events';
import { createServer, type IncomingMessage } from 'node:http';
import type { AddressInfo } from 'node:net';
import { TEST_ACCOUNT, TEST_REGION } from './templates.ts';

type Service = 'dynamodb' | 's3' | 'secretsmanager';

export interface PolicyGate {
  /** Endpoint variables for a function: what it asks of AWS goes through the gate. */
  environmentOf(fn: string): Record<string, string>;
  /** `<function> <action> <resource>` of everything that was refused. */
  readonly refused: ReadonlySet<string>;
  close(): Promise<void>;
}

/**
 * Stands between functions and the emulators, which ask for no rights, and refuses what a function's policy does not
 * allow, as AWS would.
 */
export async function startPolicyGate(
  upstreams: Record<Service, string>,
  policyOf: (fn: string) => Readonly<Record<string, readonly string[]>>,
): Promise<PolicyGate> {
  const refused = new Set<string>();
  const server = createServer(async (request, response) => {
    try {
      const [, fn, service, path] = /^\/(\w+)\/(\w+)(\/.*)$/.exec(request.url!) as unknown as [
        string,
        string,
        Service,
        string,
      ];
      const body = Buffer.concat(await request.toArray());
      const denied = requestsOf(service, request, path, body).filter(
        ([action, arn]) => !allows(policyOf(fn), action, arn),
      );
      for (const [action, arn] of denied) refused.add(`${fn} ${action} ${arn}`);
      if (denied.length > 0) {
        const message = `not authorized to perform: ${denied.map((each) => each.join(' on ')).join(', ')}`;
        response.writeHead(403, { 'content-type': 'application/x-amz-json-1.0' });
        response.end(JSON.stringify({ __type: 'AccessDeniedException', message }));
        return;
      }
      const headers = Object.entries(request.headersDistinct).filter(
        ([name]) => !['host', 'connection', 'expect'].includes(name),
      );
      const answer = await fetch(upstreams[service] + path, {
        method: request.method,
        headers: headers.flatMap(([name, values = []]) => values.map((value): [string, string] => [name, value])),
        body: request.method === 'GET' || request.method === 'HEAD' ? undefined : body,
      });
      const bytes = Buffer.from(await answer.arrayBuffer());
      const { 'content-encoding': _, 'transfer-encoding': __, ...rest } = Object.fromEntries(answer.headers);
      const length = request.method === 'HEAD' ? {} : { 'content-length': bytes.length };
      response.writeHead(answer.status, { ...rest, ...length }).end(bytes);
    } catch (error) {
      process.stderr.write(`policy gate: ${error instanceof Error ? error.stack : error}\n`);
      response.writeHead(500).end();
    }
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  return {
    environmentOf: (fn) => ({
      AWS_ENDPOINT_URL_DYNAMODB: `${url}/${fn}/dynamodb`,
      AWS_ENDPOINT_URL_S3: `${url}/${fn}/s3`,
      AWS_ENDPOINT_URL_SECRETS_MANAGER: `${url}/${fn}/secretsmanager`,
    }),
    refused,
    async close() {
      server.closeAllConnections();
      server.close();
    },
  };
}

function allows(policy: Readonly<Record<string, readonly string[]>>, action: string, arn: string): boolean {
  return Object.entries(policy).some(
    ([pattern, actions]) =>
      actions.includes(action) && (pattern.endsWith('*') ? arn.startsWith(pattern.slice(0, -1)) : pattern === arn),
  );
}

/** What a request asks for, as IAM names it: actions and resources. */
function requestsOf(
  service: Service,
  request: IncomingMessage,
  path: string,
  body: Buffer,
): [action: string, arn: string][] {
  if (service === 's3') return [s3Request(request.method!, new URL(path, 'http://s3'))];
  const action = String(request.headers['x-amz-target']).split('.').at(-1)!;
  const input = JSON.parse(body.toString());
  if (service === 'secretsmanager') {
    const arn = `arn:aws:secretsmanager:${TEST_REGION}:${TEST_ACCOUNT}:secret:${input.SecretId ?? input.Name}`;
    return [[`secretsmanager:${action}`, arn]];
  }
  return dynamoDbRequests(action, input);
}

// biome-ignore lint/suspicious/noExplicitAny: the input of any action.
function dynamoDbRequests(action: string, input: any): [string, string][] {
  const table = (name: string) => `arn:aws:dynamodb:${TEST_REGION}:${TEST_ACCOUNT}:table/${name}`;
  switch (action) {
    case 'BatchGetItem':
      return Object.keys(input.RequestItems).map((name) => ['dynamodb:BatchGetItem', table(name)]);
    case 'TransactWriteItems':
      return input.TransactItems.map((item: object) => {
        const [[operation, { TableName }]] = Object.entries(item) as [[string, { TableName: string }]];
        return [
          `dynamodb:${operation === 'ConditionCheck' ? 'ConditionCheckItem' : `${operation}Item`}`,
          table(TableName),
        ];
      });
    default:
      return [[`dynamodb:${action}`, table(input.TableName) + (input.IndexName ? `/index/${input.IndexName}` : '')]];
  }
}

function s3Request(method: string, url: URL): [string, string] {
  const [, bucket, ...key] = url.pathname.split('/');
  if (key.join('') === '') return ['s3:ListBucket', `arn:aws:s3:::${bucket}`];
  const arn = `arn:aws:s3:::${bucket}/${decodeURIComponent(key.join('/'))}`;
  if (method === 'GET' || method === 'HEAD') return ['s3:GetObject', arn];
  if (method !== 'DELETE') return ['s3:PutObject', arn];
  return [url.searchParams.has('uploadId') ? 's3:AbortMultipartUpload' : 's3:DeleteObject', arn];
}
