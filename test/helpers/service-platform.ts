import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { createServer } from 'node:http';
import { type AddressInfo, createServer as createSocketServer } from 'node:net';
import { json } from 'node:stream/consumers';
import type { BootDocument, InstanceReport } from '#core/ports/service-host.ts';

export const INSTANCE_TOKEN = 'made-up-token-of-a-revision-0123456789abcdef';
/** Id of the task in the metadata of ECS. */
export const TASK_ID = '0123456789abcdef0123456789abcdef';
export const UNAUTHORIZED: Answer = {
  status: 401,
  body: { error: { code: 'UNAUTHORIZED', message: 'no', is_retryable: false } },
};

/** Answer that the platform sends instead of accepting the request. */
export interface Answer {
  readonly status: number;
  readonly body?: object;
}

/** Finds a port for an app in a container that shares this machine's network. */
async function freePort(): Promise<number> {
  const server = createSocketServer().listen(0);
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  await new Promise((resolve) => server.close(resolve));
  return port;
}

/**
 * Starts a small HTTP server that acts as the platform for one service instance, and as the task metadata of ECS.
 *
 * @param bundle Node's `app.js`, which listens on the port in `PORT`
 * @param host its address
 */
export async function startServicePlatform(
  { bundle, ...document }: Pick<BootDocument, 'bundle'> & Partial<BootDocument>,
  host = '127.0.0.1',
) {
  const serviceId = randomUUID();
  const port = await freePort();
  const boot: BootDocument = {
    serviceId,
    workspaceId: 'w',
    revision: 4,
    agent: 'acme/bot@v1',
    app: { kind: 'argv', argv: ['node', 'app.js'] },
    env: { PORT: String(port) },
    secrets: { KEY: 'made-up-secret' },
    port,
    bundle,
    egress: 'none',
    limits: { memoryBytes: 256 * 1024 ** 2, diskBytes: 32 * 1024 ** 2, fileBytes: 32 * 1024 ** 2, processes: 64 },
    ...document,
  };
  const server = createServer(async (request, response) => {
    const answer = ({ status, body = {} }: Answer) =>
      response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body));
    platform.requests.push(request.url!);
    if (request.url === '/metadata/task') {
      const TaskARN = `arn:aws:ecs:eu-west-1:111122223333:task/services/${TASK_ID}`;
      return answer({ status: 200, body: { TaskARN } });
    }
    if (request.headers.authorization !== `Bearer ${INSTANCE_TOKEN}`) return answer(UNAUTHORIZED);
    const body = (await json(request)) as { reports?: InstanceReport[] };
    if (request.url === `/runner/services/${serviceId}/boot`) {
      const next = platform.boots.shift() ?? {};
      return answer('status' in next ? next : { status: 200, body: { ...boot, ...next } });
    }
    if (request.url !== `/runner/services/${serviceId}/reports`) return answer({ status: 404 });
    if (platform.refusal) return answer(platform.refusal);
    platform.reports.push(...body.reports!);
    answer({ status: 200 });
  });
  server.listen(0, host);
  await once(server, 'listening');
  const url = `http://${host}:${(server.address() as AddressInfo).port}`;
  const platform = {
    reports: [] as InstanceReport[],
    /** Paths. */
    requests: [] as string[],
    /** Answers to the next requests for the boot document. */
    boots: [] as (Answer | Partial<BootDocument>)[],
    /** Answer to all reports while it is set. */
    refusal: undefined as Answer | undefined,
    last: () => platform.reports.at(-1),
    /** Environment of the runner. */
    env: {
      PLATFORM_RUNNER_SERVICE: serviceId,
      PLATFORM_RUNNER_SERVICE_TOKEN: INSTANCE_TOKEN,
      PLATFORM_RUNNER_API_URL: url,
      ECS_CONTAINER_METADATA_URI_V4: `${url}/metadata`,
    },
    close: () => void server.close().closeAllConnections(),
  };
  return platform;
}
