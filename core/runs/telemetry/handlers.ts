import { PlatformError } from '#core/base/errors.ts';
import type { Handlers } from '#core/http/route.ts';
import { checkOutboundUrl } from '#core/outbound/outbound-url.ts';
import type { Deps } from '#core/ports/deps.ts';
import type { telemetryRoutes } from './routes.ts';
import type { Headers, TelemetrySettings } from './store.ts';

type HandlerDeps = Pick<Deps, 'main' | 'vault' | 'exchanges' | 'clock' | 'ids' | 'config'>;

const EXAMPLE_URL = 'https://otel.example.com';
const MASK = '••••••••';
const MAX_HEADERS = 10;
const MAX_HEADER_VALUE = 2000;
/** The vault keeps 8 KB for a secret, the endpoint included. */
const MAX_HEADERS_BYTES = 5000;
const HEADER_NAME = /^[a-z0-9!#$%&'*+.^_`|~-]{1,100}$/i;
const HEADER_VALUE = /^[\x21-\x7e](?:[\t\x20-\x7e]*[\x21-\x7e])?$/;
/** These describe the request itself. */
const RESERVED = new Set([
  ...['connection', 'content-encoding', 'content-length', 'content-type', 'expect', 'host', 'keep-alive'],
  ...['proxy-connection', 'te', 'trailer', 'transfer-encoding', 'upgrade'],
]);
const MAX_SHOWN = 500;

/** The store is loaded with the first request: other functions that share the bundle start faster. */
const load = () => import('./store.ts');

export const telemetryHandlers = (deps: HandlerDeps): Handlers<typeof telemetryRoutes> => {
  const shown = async (workspaceId: string) => {
    const settings = await (await load()).findSettings(deps, workspaceId);
    return { telemetry: settings === undefined ? null : viewOf(settings) };
  };
  return {
    async getTelemetry({ caller }) {
      return { status: 200, body: await shown(caller.workspace.id) };
    },

    async setTelemetry({ caller, body: { endpoint, headers, content } }) {
      const { id } = caller.workspace;
      checkOutboundUrl(endpoint, deps.config.outboundHosts, 'body.endpoint', EXAMPLE_URL);
      if (headers !== undefined) checkHeaders(headers);
      const { putSettings } = await load();
      await putSettings(deps, id, { endpoint, headers: headers ?? (await keptHeaders(deps, id, endpoint)), content });
      return { status: 200, body: await shown(id) };
    },

    async deleteTelemetry({ caller }) {
      const { removeSettings } = await load();
      if (!(await removeSettings(deps, caller.workspace.id))) throw noTelemetry();
      return { status: 200, body: { deleted: true } };
    },

    async testTelemetry({ caller }) {
      const { id: workspaceId } = caller.workspace;
      const { collectorOf, findSettings } = await load();
      const settings = await findSettings(deps, workspaceId);
      const collector = settings && (await collectorOf(deps, workspaceId, settings));
      if (collector === undefined) throw noTelemetry();
      const { sendTestSpan } = await import('./test-span.ts');
      const { status, answer, problem } = await sendTestSpan(deps, collector, workspaceId);
      return {
        status: 200,
        body: {
          success: problem === undefined,
          status,
          answer: withoutValues(answer, collector.headers).slice(0, MAX_SHOWN),
          problem: problem ?? null,
        },
      };
    },
  };
};

const noTelemetry = (): PlatformError =>
  new PlatformError('NOT_FOUND', 'This workspace sends no spans.', {
    hint: 'PUT /workspaces/{id}/telemetry, or platform telemetry set, names a collector.',
  });

const viewOf = ({ endpoint, headerNames, content, updatedAt, health }: TelemetrySettings) => ({
  endpoint,
  headers: Object.fromEntries(headerNames.map((name) => [name, MASK])),
  content,
  updated_at: updatedAt,
  problem: health?.problem ?? null,
  problem_since: health?.since ?? null,
});

/** Returns the headers of the earlier settings. Throws INVALID_INPUT if they were given for another host. */
async function keptHeaders(deps: HandlerDeps, workspaceId: string, endpoint: string): Promise<Headers> {
  const { readHeaders } = await load();
  const kept = await readHeaders(deps, workspaceId);
  if (kept === undefined) return {};
  if (new URL(kept.endpoint).origin === new URL(endpoint).origin) return kept.headers;
  throw new PlatformError('INVALID_INPUT', 'body.headers: are required, because the endpoint is on another host.', {
    hint: 'The headers of a collector are not sent to another one. Send {} if the new one needs none.',
  });
}

/** Throws INVALID_INPUT. No message contains a value. */
function checkHeaders(headers: Headers): void {
  const refuse = (problem: string): never => {
    throw new PlatformError('INVALID_INPUT', `body.headers${problem}`);
  };
  const entries = Object.entries(headers);
  if (entries.length > MAX_HEADERS) refuse(`: must be at most ${MAX_HEADERS}, not ${entries.length}.`);
  const names = new Set<string>();
  for (const [name, value] of entries) {
    const lower = name.toLowerCase();
    if (!HEADER_NAME.test(name)) refuse(': has a name that no header can have.');
    if (RESERVED.has(lower)) refuse(`.${name}: is set by the platform.`);
    if (names.has(lower)) refuse(`.${name}: is named twice.`);
    names.add(lower);
    if (value.length > MAX_HEADER_VALUE || !HEADER_VALUE.test(value)) {
      refuse(`.${name}: must have 1 to ${MAX_HEADER_VALUE} printable characters of ASCII.`);
    }
    if (value === MASK) refuse(`.${name}: is the mask, not the value.`);
  }
  if (JSON.stringify(headers).length > MAX_HEADERS_BYTES) {
    refuse(`: must have at most ${MAX_HEADERS_BYTES} characters together.`);
  }
}

/** A collector may repeat what it was sent. */
const withoutValues = (answer: string, headers: Headers): string =>
  Object.values(headers).reduce((text, value) => text.replaceAll(value, MASK), answer);
