import { once } from 'node:events';
import {
  Agent,
  createServer,
  type IncomingHttpHeaders,
  type IncomingMessage,
  type ServerResponse,
  request as startRequest,
} from 'node:http';
import type { AddressInfo } from 'node:net';
import { pipeline } from 'node:stream/promises';
import { consumedUnits } from '#test/helpers/consumed-units.ts';
import { judgeFormPost } from '#test/helpers/post-policy.ts';
import { type KeysOfResources, withKeys } from './dependent-actions.ts';
import { type Ask, allowing, type Statement } from './iam.ts';
import { type Reader, WIRE, type WireRequest } from './wire.ts';

/** The backend of a service: an emulator's address, or code of the rehearsal. */
export type Service = string | ((request: WireRequest, response: ServerResponse) => Promise<void>);

/** Marks a backend that checks signatures itself: its requests keep the signed host name. */
export const withSignature =
  (upstream: string): Service =>
  async ({ method, url, headers, body }, response) => {
    const sent = startRequest(upstream + url.pathname + url.search, { method, headers });
    sent.end(body);
    const [answer] = (await once(sent, 'response')) as [IncomingMessage];
    response.writeHead(answer.statusCode!, answer.headers);
    await pipeline(answer, response);
  };

/** The access key of a principal: letters only, as DynamoDB Local requires. */
export const accessKeyOf = (principal: string): string => principal.replaceAll('-', '');

/** An allowed request. */
export interface AwsCall {
  /** The principal that signed it. */
  readonly principal: string;
  readonly service: string;
  /** The IAM action, such as `s3:GetObject`; for a transaction, the action of its first part. */
  readonly action: string;
  readonly status: number;
  /** The consumed capacity that DynamoDB reports. */
  readonly readUnits: number;
  readonly writeUnits: number;
}

export interface AwsGate {
  readonly url: string;
  /** `<principal> <action> <resource>` of every refused request. */
  readonly refused: ReadonlySet<string>;
  /** `<principal> <action> <resource>`, as policies name them, of every allowed request. */
  readonly used: ReadonlySet<string>;
  readonly calls: readonly AwsCall[];
  close(): Promise<void>;
}

/**
 * Starts the AWS endpoint of a rehearsal. The signature of each request names its principal and service, as on AWS
 * (`Credential=<access key>/<date>/<region>/<service>/aws4_request`, also in presigned URLs and forms). The gate
 * refuses requests that the principal's policies do not allow, and forwards the rest to the emulator of the service.
 *
 * @param policies by principal, whose access key is {@link accessKeyOf}
 * @param keys that encrypt resources; access to these resources requires rights on the keys
 */
export async function startAwsGate(
  services: Readonly<Record<string, Service>>,
  policies: Readonly<Record<string, readonly Statement[]>>,
  wire: Readonly<Record<string, Reader>> = WIRE,
  keys: KeysOfResources = new Map(),
): Promise<AwsGate> {
  const refused = new Set<string>();
  const used = new Set<string>();
  const calls: AwsCall[] = [];
  const principals = new Map(Object.keys(policies).map((principal) => [accessKeyOf(principal), principal]));

  const isAllowed = (principal: string, ask: Ask): boolean => {
    const grant = allowing(policies[principal] ?? [], ask);
    if (grant === undefined) {
      refused.add(`${principal} ${ask.action} ${ask.resource}`);
      return false;
    }
    used.add(`${principal} ${grant.action} ${grant.resource}`);
    return true;
  };

  async function serve(incoming: IncomingMessage, response: ServerResponse): Promise<void> {
    const body = Buffer.concat(await incoming.toArray());
    const url = new URL(incoming.url!, 'http://aws');
    const request: WireRequest = { method: incoming.method!, url, headers: incoming.headers, body };
    const { accessKey, service } = signerOf(request);
    const principal = principals.get(accessKey) ?? accessKey;
    const upstream = services[service];
    const read = wire[service];
    if (upstream === undefined || read === undefined) {
      refused.add(`${principal} ${service}: not a service of the rehearsal (test/rehearsal/wire.ts)`);
      return refuse(response, `there is no service ${service}`);
    }
    const type = String(incoming.headers['content-type']);
    const isForm = service === 's3' && request.method === 'POST' && type.startsWith('multipart/form-data');
    const form = isForm ? await judgeFormPost(url.pathname.split('/')[1]!, type, body) : undefined;
    if (form?.refusal) {
      response.writeHead(form.refusal.status, { 'content-type': 'application/xml' });
      response.end(`<Error><Code>${form.refusal.code}</Code></Error>`);
      return;
    }
    const asks = form
      ? [{ action: 's3:PutObject', resource: `arn:aws:s3:::${form.bucket}/${form.key}` }]
      : read(request);
    const denied = withKeys(asks, keys).filter((ask) => !isAllowed(principal, ask));
    if (denied.length > 0) {
      const what = denied.map(({ action, resource }) => `${action} on ${resource}`).join(', ');
      return refuse(response, `not authorized to perform: ${what}`);
    }
    const action = asks[0]!.action;
    if (typeof upstream !== 'string') {
      await upstream(request, response);
      calls.push({ principal, service, action, status: response.statusCode, readUnits: 0, writeUnits: 0 });
      return;
    }
    const units = await forward(upstream, service, request, response);
    calls.push({ principal, service, action, status: response.statusCode, ...units });
  }

  // Frozen processes notice a closed connection late.
  const server = createServer({ keepAliveTimeout: 0 }, (incoming, response) => {
    serve(incoming, response).catch((error) => {
      // The client has disconnected, which is harmless.
      if (response.destroyed) return;
      process.stderr.write(`aws gate: ${error instanceof Error ? error.stack : error}\n`);
      response.headersSent ? response.destroy() : response.writeHead(500).end();
    });
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    refused,
    used,
    calls,
    async close() {
      server.closeAllConnections();
      server.close();
    },
  };
}

/** Reads access key and service from the signature. Only S3 has presigned forms. */
function signerOf({ url, headers, body }: WireRequest): { accessKey: string; service: string } {
  const inForm = () =>
    /name="x-amz-credential"\r\n\r\n([^\r]+)/i.exec(body.subarray(0, 16_384).toString('latin1'))?.[1];
  const inHeader = /Credential=([^,\s]+)/.exec(String(headers.authorization))?.[1];
  const [accessKey = 'anonymous', , , service = 's3'] =
    (inHeader ?? url.searchParams.get('X-Amz-Credential') ?? inForm())?.split('/') ?? [];
  // MicroVMs have their own API, signed with Lambda's service name.
  const isMicrovms = service === 'lambda' && url.pathname.startsWith('/2025-09-09/microvms');
  return { accessKey, service: isMicrovms ? 'microvms' : service };
}

function refuse(response: ServerResponse, message: string): void {
  response.writeHead(403, { 'content-type': 'application/x-amz-json-1.0' });
  response.end(JSON.stringify({ __type: 'AccessDeniedException', message }));
}

/** Forwards a request to an emulator and returns its answer; asks DynamoDB for the consumed capacity. */
async function forward(
  upstream: string,
  service: string,
  { method, url, headers, body }: WireRequest,
  response: ServerResponse,
): Promise<{ readUnits: number; writeUnits: number }> {
  const isDynamoDb = service === 'dynamodb' && !String(headers['x-amz-target']).startsWith('DynamoDBStreams');
  const sent = isDynamoDb
    ? JSON.stringify({ ...JSON.parse(body.toString()), ReturnConsumedCapacity: 'INDEXES' })
    : body;
  const hasBody = method !== 'GET' && method !== 'HEAD';
  const sending = startRequest(upstream + url.pathname + url.search, {
    method,
    agent: AGENT,
    headers: { ...without(headers, OWN_HEADERS), ...(hasBody && { 'content-length': Buffer.byteLength(sent) }) },
  });
  response.on('close', () => response.writableFinished || sending.destroy());
  sending.end(hasBody ? sent : undefined);
  const [answer] = (await once(sending, 'response')) as [IncomingMessage];
  const status = answer.statusCode!;
  const kept = without(answer.headers, OWN_HEADERS);
  if (service === 'lambda') {
    // Streamed answers are passed on chunk by chunk.
    response.writeHead(status, kept);
    response.flushHeaders();
    await pipeline(answer, response);
    return { readUnits: 0, writeUnits: 0 };
  }
  const bytes = Buffer.concat(await answer.toArray());
  // The length of a HEAD answer describes the omitted body.
  const length = method === 'HEAD' ? answer.headers['content-length'] : bytes.length;
  response.writeHead(status, { ...kept, ...(length !== undefined && { 'content-length': length }) }).end(bytes);
  if (!isDynamoDb) return { readUnits: 0, writeUnits: 0 };
  const action = String(headers['x-amz-target']).split('.').at(-1)!;
  return consumedUnits(action, status < 300 ? JSON.parse(bytes.toString()).ConsumedCapacity : undefined);
}

/** A connection that the emulator would close soon is not used again. */
const AGENT = new Agent({ keepAlive: true, timeout: 5000 });
/** Headers of one connection. */
const OWN_HEADERS = ['host', 'connection', 'keep-alive', 'expect', 'content-length', 'transfer-encoding'];

const without = (headers: IncomingHttpHeaders, names: readonly string[]): IncomingHttpHeaders =>
  Object.fromEntries(Object.entries(headers).filter(([name]) => !names.includes(name)));
