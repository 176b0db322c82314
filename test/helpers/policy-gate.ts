import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { judgeFormPost } from './post-policy.ts';
import { TEST_ACCOUNT, TEST_REGION } from './templates.ts';

type Service = 'dynamodb' | 'lambda' | 's3' | 'scheduler' | 'secretsmanager';

export interface PolicyGate {
  /** Endpoint variables for a function: what it asks of AWS goes through the gate. */
  environmentOf(fn: string): Record<string, string>;
  /** `<function> <action> <resource>` of everything that was refused. */
  readonly refused: ReadonlySet<string>;
  /** `<function> <action> <resource>`, as the policy names it, of everything that was allowed. */
  readonly used: ReadonlySet<string>;
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
  const used = new Set<string>();
  /** Everything of a request that the policy of `fn` does not allow. */
  const judge = (fn: string, asked: [action: string, arn: string][]): string[] =>
    asked.flatMap(([action, arn]) => {
      const pattern = grantOf(policyOf(fn), action, arn);
      if (pattern === undefined) refused.add(`${fn} ${action} ${arn}`);
      else used.add(`${fn} ${action} ${pattern}`);
      return pattern === undefined ? [`${action} on ${arn}`] : [];
    });
  const server = createServer(async (request, response) => {
    try {
      const [, fn = '', service, path = ''] = /^\/([\w-]+)\/(\w+)(\/.*)$/.exec(request.url!) ?? [];
      const body = Buffer.concat(await request.toArray());
      const { 'content-type': type = '' } = request.headers;
      if (service === 's3' && type.startsWith('multipart/form-data')) {
        const { bucket, key, refusal } = await judgeFormPost(path.split('/')[1]!, type, body);
        const asked: [string, string][] = [['s3:PutObject', `arn:aws:s3:::${bucket}/${key}`]];
        const code = refusal?.code ?? (judge(fn, asked).length > 0 ? 'AccessDenied' : undefined);
        if (code === undefined) return await forward(upstreams.s3 + path, request, body, response);
        response.writeHead(refusal?.status ?? 403, { 'content-type': 'application/xml' });
        return response.end(`<Error><Code>${code}</Code></Error>`);
      }
      const denied = judge(fn, requestsOf(service as Service, request, path, body));
      if (denied.length > 0) {
        response.writeHead(403, { 'content-type': 'application/x-amz-json-1.0' });
        const message = `not authorized to perform: ${denied.join(', ')}`;
        response.end(JSON.stringify({ __type: 'AccessDeniedException', message }));
      } else {
        await forward(upstreams[service as Service] + path, request, body, response);
      }
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
      AWS_ENDPOINT_URL_LAMBDA: `${url}/${fn}/lambda`,
      AWS_ENDPOINT_URL_SCHEDULER: `${url}/${fn}/scheduler`,
      AWS_ENDPOINT_URL_S3: `${url}/${fn}/s3`,
      AWS_ENDPOINT_URL_SECRETS_MANAGER: `${url}/${fn}/secretsmanager`,
    }),
    refused,
    used,
    async close() {
      server.closeAllConnections();
      server.close();
    },
  };
}

async function forward(url: string, request: IncomingMessage, body: Buffer, response: ServerResponse): Promise<void> {
  const { method = 'GET' } = request;
  const answer = await fetch(url, {
    method,
    headers: Object.entries(request.headersDistinct)
      .filter(([name]) => !['host', 'connection', 'expect'].includes(name))
      .flatMap(([name, values = []]) => values.map((value): [string, string] => [name, value])),
    body: method === 'GET' || method === 'HEAD' ? undefined : body,
  });
  const bytes = Buffer.from(await answer.arrayBuffer());
  // `fetch` has undone the encoding; the length of an answer to HEAD is that of what it leaves out.
  const headers = [...answer.headers].filter(([name]) => !['content-encoding', 'transfer-encoding'].includes(name));
  const length = method === 'HEAD' ? {} : { 'content-length': bytes.length };
  response.writeHead(answer.status, { ...Object.fromEntries(headers), ...length }).end(bytes);
}

/** The resource of the policy by which an action is allowed. */
const grantOf = (
  policy: Readonly<Record<string, readonly string[]>>,
  action: string,
  arn: string,
): string | undefined =>
  Object.keys(policy).find(
    (pattern) =>
      policy[pattern]!.includes(action) &&
      (pattern.endsWith('*') ? arn.startsWith(pattern.slice(0, -1)) : pattern === arn),
  );

/** What a request asks for, as IAM names it: actions and resources. */
function requestsOf(
  service: Service,
  request: IncomingMessage,
  path: string,
  body: Buffer,
): [action: string, arn: string][] {
  if (service === 'lambda') {
    const name = decodeURIComponent(path.split('/')[3]!);
    return [['lambda:InvokeFunction', `arn:aws:lambda:${TEST_REGION}:${TEST_ACCOUNT}:function:${name}`]];
  }
  if (service === 'scheduler') return schedulerRequests(request.method!, new URL(path, 'http://scheduler'), body);
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

function schedulerRequests(method: string, url: URL, body: Buffer): [string, string][] {
  const [, , name] = url.pathname.split('/');
  if (name === undefined) return [['scheduler:ListSchedules', '*']];
  const input = method === 'POST' ? JSON.parse(body.toString()) : {};
  const group = input.GroupName ?? url.searchParams.get('groupName');
  const arn = `arn:aws:scheduler:${TEST_REGION}:${TEST_ACCOUNT}:schedule/${group}/${decodeURIComponent(name)}`;
  if (method === 'DELETE') return [['scheduler:DeleteSchedule', arn]];
  return [
    ['scheduler:CreateSchedule', arn],
    ['iam:PassRole', input.Target.RoleArn],
  ];
}

function s3Request(method: string, url: URL): [string, string] {
  const [, bucket, ...key] = url.pathname.split('/');
  if (key.join('') === '') return ['s3:ListBucket', `arn:aws:s3:::${bucket}`];
  const arn = `arn:aws:s3:::${bucket}/${decodeURIComponent(key.join('/'))}`;
  if (method === 'GET' || method === 'HEAD') return ['s3:GetObject', arn];
  if (method !== 'DELETE') return ['s3:PutObject', arn];
  return [url.searchParams.has('uploadId') ? 's3:AbortMultipartUpload' : 's3:DeleteObject', arn];
}
