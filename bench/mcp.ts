import { type Bench, ms, type Row } from './harness.ts';
import { publishPrompt } from './prompts.ts';
import { median } from './statistics.ts';

const WARM_UP = 30;
const CALLS = 150;
const MAX_MORE_MS = 1.5;
const AGENTS = 100;
const LISTS = 50;
const MAX_LIST_MS = 20;
const REVISION = '2026-07-28';
const META = {
  'io.modelcontextprotocol/protocolVersion': REVISION,
  'io.modelcontextprotocol/clientCapabilities': {},
};

/** Alternates calls of one prompt agent by MCP and by the API, and lists the tools of a workspace with many agents. */
export async function benchMcp({ platform, client }: Bench): Promise<Row[]> {
  await publishPrompt(client, 'bench-mcp', 'claude-bench');
  const sides = {
    mcp: () => rpc(platform, 'tools/call', { name: 'main__bench-mcp', arguments: { name: 'Ada' } }),
    api: () => post(platform, '/main/bench-mcp/v1/run', { name: 'Ada' }, {}),
  };
  const times = { mcp: [] as number[], api: [] as number[] };
  for (let call = 0; call < WARM_UP + CALLS; call++) {
    for (const side of ['api', 'mcp'] as const) {
      const took = await timed(sides[side]);
      if (call >= WARM_UP) times[side].push(took);
    }
  }
  for (let n = 1; n < AGENTS; n++) await publishPrompt(client, `bench-mcp-${n}`, 'claude-bench');
  const lists: number[] = [];
  for (let list = 0; list < WARM_UP + LISTS; list++) {
    const took = await timed(() => listAll(platform));
    if (list >= WARM_UP) lists.push(took);
  }
  const [called, own, listed] = [median(times.mcp), median(times.api), median(lists)];
  return [
    {
      what: 'call of a tool by MCP, one at a time',
      ours: ms(called),
      beside: `the same call by the API ${ms(own)}`,
      result: `${(called - own).toFixed(2)} ms more`,
      bound: `at most ${MAX_MORE_MS} ms more`,
      isMet: called - own <= MAX_MORE_MS,
    },
    {
      what: `tools/list of a workspace with ${AGENTS} agents, all pages`,
      ours: ms(listed),
      beside: 'nothing',
      result: ms(listed),
      bound: `below ${MAX_LIST_MS} ms`,
      isMet: listed < MAX_LIST_MS,
    },
  ];
}

async function timed(work: () => Promise<unknown>): Promise<number> {
  const sentAt = performance.now();
  await work();
  return performance.now() - sentAt;
}

async function listAll(platform: Bench['platform']): Promise<void> {
  let cursor: string | undefined;
  let agents = 0;
  do {
    const text = await rpc(platform, 'tools/list', cursor === undefined ? {} : { cursor });
    const { result } = JSON.parse(text) as { readonly result: { tools: { name: string }[]; nextCursor?: string } };
    agents += result.tools.filter(({ name }) => name.startsWith('main__')).length;
    cursor = result.nextCursor;
  } while (cursor !== undefined);
  if (agents < AGENTS) throw new Error(`tools/list has only ${agents} agents`);
}

const rpc = (
  platform: Bench['platform'],
  method: string,
  params: { readonly [member: string]: unknown },
): Promise<string> =>
  post(
    platform,
    '/mcp',
    { jsonrpc: '2.0', id: 1, method, params: { ...params, _meta: META } },
    {
      accept: 'application/json, text/event-stream',
      'mcp-protocol-version': REVISION,
      'mcp-method': method,
      ...(typeof params.name === 'string' && { 'mcp-name': params.name }),
    },
  );

/** Sends a request and returns the whole text of its answer. Throws for a failure. */
async function post(platform: Bench['platform'], path: string, body: object, headers: Record<string, string>) {
  const answer = await fetch(platform.url + path, {
    method: 'POST',
    headers: { authorization: `Bearer ${platform.key}`, 'content-type': 'application/json', ...headers },
    body: JSON.stringify(body),
  });
  const text = await answer.text();
  if (!answer.ok || text.includes('"error":{') || text.includes('"isError":true')) throw new Error(`${path}: ${text}`);
  return text;
}
