import { describe, expect, test } from 'vitest';
import { newRunKey } from '#core/accounts/service-keys/key-format.ts';
import { authenticateAgent } from '#core/api/agent-caller.ts';
import type { AgentCaller, RunContext } from '#core/base/caller.ts';
import type { Json } from '#core/base/json.ts';
import type { Workspace } from '#core/base/workspace.ts';
import type { AgentDefinition, Orchestration } from '#core/manifest/definition.ts';
import type { AgentVersion } from '#core/manifest/version.ts';
import { headKey } from '#core/runs/items.ts';
import { RunStore } from '#core/runs/store.ts';
import { type MemoryDeps, memoryDeps } from '#test/helpers/memory-deps.ts';
import { countSpend } from './budget.ts';
import { type Lineage, topOfChain } from './lineage.ts';
import { contextEnvironment, type IssuedContext, newContext } from './run-context.ts';
import { checkSubCall } from './sub-call.ts';

const WORKSPACE: Workspace = {
  id: '11111111-1111-4111-8111-111111111111',
  slug: 'ann',
  name: 'Ann',
  type: 'personal',
  createdAt: '2035-06-01T12:00:00.000Z',
};
const ELSEWHERE = '22222222-2222-4222-8222-222222222222';

/** Builds `ann/<name>@v1`, with the agents in `calls` as its dependencies. */
function agent(
  name: string,
  calls: readonly string[] = [],
  manifest: Partial<Orchestration> = {},
  more: Partial<AgentDefinition> = {},
  workspaceId = WORKSPACE.id,
): AgentVersion {
  const dependencies = calls.map((id) => ({ id: `ann/${id}`, version: 'v1' }));
  const definition = {
    name,
    is_public: false,
    callable: true,
    manifest: calls.length > 0 || Object.keys(manifest).length > 0 ? { max_hops: 5, dependencies, ...manifest } : null,
    ...more,
  };
  return {
    id: `id of ${name}`,
    workspaceId,
    orgSlug: 'ann',
    name,
    version: 1,
    firstVersion: 1,
    definition: definition as unknown as AgentDefinition,
  } as AgentVersion;
}

interface Started {
  readonly caller: AgentCaller;
  readonly issued: IssuedContext;
  readonly env: Record<string, string>;
}

/** Records a run as a call does, and authenticates with its key. */
async function start(
  deps: MemoryDeps,
  version: AgentVersion,
  lineage: Lineage = topOfChain(version),
  seconds = 60,
): Promise<Started> {
  const runId = deps.ids.uuid();
  const issued = newContext(deps, { agent: version, runId, workspace: WORKSPACE, lineage });
  const deadline = deps.clock.now() + seconds * 1000;
  await new RunStore(deps, WORKSPACE.id).start({
    id: runId,
    agentId: version.id,
    agentWorkspaceId: version.workspaceId,
    agentOrg: 'ann',
    agentName: version.name,
    agentVersion: 'v1',
    engine: version.definition.execution_engine,
    endpoint: 'run',
    triggerSource: 'api',
    startedAt: deps.clock.now(),
    deadline,
    parentRunId: lineage.parentRunId,
    rootRunId: lineage.rootRunId,
    input: {},
    context: issued.context as unknown as Json,
  });
  const caller = await authenticateAgent(deps, issued.serviceKey);
  expect(caller).toMatchObject({ kind: 'run', runId });
  return {
    caller: caller!,
    issued,
    env: contextEnvironment(issued, { gatewayUrl: 'http://127.0.0.1:1', deadline }),
  };
}

const call = (
  deps: MemoryDeps,
  from: Started,
  to: AgentVersion,
  headers: Record<string, string> = {},
  version = 'v1',
) => checkSubCall(deps, from.caller, new Headers(headers), { version, agent: to });

/** Headers that the SDK sends (`docs/interface/orchestration.md#chain-headers`). */
const sdkHeaders = (env: Record<string, string>): Record<string, string> => ({
  'X-Platform-Call-Chain': env.PLATFORM_CALL_CHAIN!,
  'X-Platform-Call-Chain-Sig': env.PLATFORM_CALL_CHAIN_SIG!,
  'X-Platform-Billing-Org-Id': env.PLATFORM_BILLING_ORG_ID!,
  'X-Platform-Billing-Org-Sig': env.PLATFORM_BILLING_ORG_SIG!,
  'X-Platform-Max-Hops': String(Number(env.PLATFORM_MAX_HOPS) - 1),
  'X-Platform-Downstream-Remaining': env.PLATFORM_DOWNSTREAM_REMAINING!,
  'X-Platform-Deadline-Ms': env.PLATFORM_DEADLINE_MS!,
  'X-Platform-Root-Run-Id': env.PLATFORM_ROOT_RUN_ID!,
  'X-Platform-Request-Id': env.PLATFORM_REQUEST_ID!,
});

describe('the lineage of a called run', () => {
  test('comes from the record of the calling run', async () => {
    const deps = memoryDeps();
    const top = await start(deps, agent('top', ['mid'], { max_hops: 3, per_call_downstream_cap: 7 }));
    expect(top.env).toMatchObject({
      PLATFORM_CALL_CHAIN: 'ann/top@v1',
      PLATFORM_MAX_HOPS: '3',
      PLATFORM_DOWNSTREAM_REMAINING: '7',
      PLATFORM_BILLING_ORG_ID: WORKSPACE.id,
      PLATFORM_ROOT_RUN_ID: top.issued.runId,
      PLATFORM_REQUEST_ID: `req_${top.issued.runId.replaceAll('-', '')}`,
    });
    const plain = await call(deps, top, agent('mid', ['leaf']));
    expect(plain).toEqual({
      chain: ['ann/top@v1'],
      parentRunId: top.issued.runId,
      rootRunId: top.issued.runId,
      maxHops: 2,
      budgets: [{ id: expect.any(String), ref: 'ann/mid@v1', cap: 7 }],
      isStrict: false,
      foreign: [],
      skillHome: { workspaceId: WORKSPACE.id, slug: 'ann' },
      deadline: deps.clock.now() + 60_000,
    });
    const signed = await call(deps, top, agent('mid', ['leaf']), sdkHeaders(top.env));
    expect({ ...signed, budgets: [] }).toEqual({ ...plain, budgets: [] });

    const mid = await start(deps, agent('mid', ['leaf'], { max_hops: 9 }), plain);
    expect(mid.env).toMatchObject({
      PLATFORM_CALL_CHAIN: 'ann/top@v1,ann/mid@v1',
      PLATFORM_MAX_HOPS: '2',
      PLATFORM_DOWNSTREAM_REMAINING: '7',
      PLATFORM_ROOT_RUN_ID: top.issued.runId,
    });
    expect(await call(deps, mid, agent('leaf'), sdkHeaders(mid.env))).toMatchObject({
      chain: ['ann/top@v1', 'ann/mid@v1'],
      parentRunId: mid.issued.runId,
      rootRunId: top.issued.runId,
      maxHops: 1,
    });
  });

  test('has the agents of other workspaces above it, down to any depth', async () => {
    const deps = memoryDeps();
    const stranger = (name: string, calls: string[]) => agent(name, calls, {}, { is_public: true }, ELSEWHERE);
    const entry = (name: string) => ({ workspaceId: ELSEWHERE, org: 'ann', name, version: 1, firstVersion: 1 });
    const top = await start(deps, agent('top', ['a']));
    expect(top.issued.context.foreign).toEqual([]);
    const a = await start(deps, stranger('a', ['own']), await call(deps, top, stranger('a', [])));
    expect(a.issued.context.foreign).toEqual([entry('a')]);
    const own = agent('own', ['b'], {}, { is_public: true });
    const below = await start(deps, own, await call(deps, a, own));
    expect(below.issued.context.foreign).toEqual([entry('a')]);
    const lineage = await call(deps, below, stranger('b', []));
    const b = await start(deps, stranger('b', []), lineage);
    expect(b.issued.context.foreign).toEqual([entry('a'), entry('b')]);
    // Skills in headers are resolved from the calling agent's workspace.
    expect(lineage.skillHome?.workspaceId).toBe(WORKSPACE.id);
    expect((await call(deps, a, own)).skillHome?.workspaceId).toBe(ELSEWHERE);
  });

  test('below a run that began before there were grants has no foreign agents', async () => {
    const deps = memoryDeps();
    const { issued } = await start(deps, agent('top', ['mid']));
    const item = await deps.runs.get(headKey(WORKSPACE.id, issued.runId));
    const { foreign: _, ...context } = item!.context as unknown as RunContext;
    await deps.runs.put({ ...item!, context: context as unknown as Json });
    const caller = await authenticateAgent(deps, issued.serviceKey);
    expect((await call(deps, { caller: caller! } as Started, agent('mid'))).foreign).toEqual([]);
  });

  test('is strict below a strict agent', async () => {
    const deps = memoryDeps();
    const top = await start(deps, agent('top', ['mid'], { orchestration_mode: 'strict' }));
    const mid = await start(
      deps,
      agent('mid', ['leaf'], { orchestration_mode: 'flexible' }),
      await call(deps, top, agent('mid')),
    );
    expect(mid.issued.context.isStrict).toBe(true);
    expect((await call(deps, mid, agent('leaf'))).isStrict).toBe(true);
  });

  test('has limits that headers can lower but not raise', async () => {
    const deps = memoryDeps();
    const top = await start(deps, agent('top', ['mid'], { max_hops: 3, per_call_downstream_cap: 7 }));
    const now = deps.clock.now();
    const asked = (hops: number, budget: number, deadline: number) => ({
      'X-Platform-Max-Hops': String(hops),
      'X-Platform-Downstream-Remaining': String(budget),
      'X-Platform-Deadline-Ms': String(deadline),
    });
    const wider = await call(deps, top, agent('mid'), asked(99, 999, now + 999_000));
    expect(wider).toMatchObject({ maxHops: 2, budgets: [{ cap: 7 }], deadline: now + 60_000 });
    const narrower = await call(deps, top, agent('mid'), asked(0, 1, now + 5_000));
    expect(narrower).toMatchObject({ maxHops: 0, budgets: [{ cap: 1 }], deadline: now + 5_000 });
  });

  test.each(['X-Platform-Max-Hops', 'X-Platform-Downstream-Remaining', 'X-Platform-Deadline-Ms'])(
    '%s must be a number',
    async (name) => {
      const deps = memoryDeps();
      const top = await start(deps, agent('top', ['mid']));
      for (const text of ['-1', '1.5', 'many', '', '1e3', '9'.repeat(30)]) {
        await expect(call(deps, top, agent('mid'), { [name]: text })).rejects.toMatchObject({
          code: 'INVALID_INPUT',
          message: expect.stringContaining(name),
        });
      }
    },
  );
});

describe('the service key of a run', () => {
  test('is invalid once its run has ended, was lost or is past its deadline', async () => {
    const deps = memoryDeps();
    const { issued } = await start(deps, agent('top', ['mid']), undefined, 10);
    await deps.clock.advance(9_999);
    expect(await authenticateAgent(deps, issued.serviceKey)).toBeDefined();
    await deps.clock.advance(1);
    expect(await authenticateAgent(deps, issued.serviceKey)).toBeUndefined();

    const other = await start(deps, agent('top', ['mid']));
    const { pk, sk } = headKey(WORKSPACE.id, other.issued.runId);
    await deps.runs.update({ pk, sk }, { set: { status: 'completed' } });
    expect(await authenticateAgent(deps, other.issued.serviceKey)).toBeUndefined();
  });

  test('cannot be guessed from the ids of the run', async () => {
    const deps = memoryDeps();
    const { issued } = await start(deps, agent('top', ['mid']));
    const forged = newRunKey(deps.ids, { workspaceId: WORKSPACE.id, runId: issued.runId });
    expect(await authenticateAgent(deps, forged)).toBeUndefined();
    const nowhere = newRunKey(deps.ids, { workspaceId: ELSEWHERE, runId: issued.runId });
    expect(await authenticateAgent(deps, nowhere)).toBeUndefined();
  });

  test('is stored only as a hash', async () => {
    const deps = memoryDeps();
    const { issued } = await start(deps, agent('top', ['mid']));
    expect(JSON.stringify(issued.context)).not.toContain(issued.serviceKey.slice(60));
  });
});

describe('signed headers', () => {
  const all = [
    'X-Platform-Call-Chain',
    'X-Platform-Call-Chain-Sig',
    'X-Platform-Billing-Org-Id',
    'X-Platform-Billing-Org-Sig',
  ];

  test('are refused if they are forged or of another run', async () => {
    const deps = memoryDeps();
    const top = await start(deps, agent('top', ['mid']));
    const same = await start(deps, agent('top', ['mid']));
    const good = sdkHeaders(top.env);
    for (const name of all) {
      for (const value of ['', 'x', '0'.repeat(64), 'ann/other@v1', ELSEWHERE]) {
        await expect(call(deps, top, agent('mid'), { ...good, [name]: value })).rejects.toMatchObject({
          code: 'FORBIDDEN',
        });
      }
    }
    await expect(call(deps, top, agent('mid'), sdkHeaders(same.env))).rejects.toMatchObject({ code: 'FORBIDDEN' });
    // Signature of another run for the same text.
    const mixed = { ...good, 'X-Platform-Call-Chain-Sig': same.env.PLATFORM_CALL_CHAIN_SIG! };
    await expect(call(deps, top, agent('mid'), mixed)).rejects.toMatchObject({ code: 'FORBIDDEN' });
    // Signature of a chain instead of a billing organization.
    const swapped = { ...good, 'X-Platform-Billing-Org-Sig': top.env.PLATFORM_CALL_CHAIN_SIG! };
    await expect(call(deps, top, agent('mid'), swapped)).rejects.toMatchObject({ code: 'FORBIDDEN' });
  });

  test('need their signatures, and the chain needs the billing organization', async () => {
    const deps = memoryDeps();
    const top = await start(deps, agent('top', ['mid']));
    const good = sdkHeaders(top.env);
    const without = (...names: string[]) =>
      Object.fromEntries(Object.entries(good).filter(([name]) => !names.includes(name)));
    const code = async (headers: Record<string, string>) =>
      call(deps, top, agent('mid'), headers).then(
        () => 'ok',
        (error) => error.code,
      );
    expect(await code(without(all[0]!))).toBe('FORBIDDEN');
    expect(await code(without(all[1]!))).toBe('FORBIDDEN');
    expect(await code(without(all[2]!))).toBe('MISSING_BILLING_ORG');
    expect(await code(without(all[3]!))).toBe('MISSING_BILLING_ORG');
    expect(await code(without(all[2]!, all[3]!))).toBe('MISSING_BILLING_ORG');
    expect(await code(without(all[0]!, all[1]!))).toBe('ok');
    expect(await code({})).toBe('ok');
  });
});

describe('an agent may call', () => {
  const refusal = async (from: AgentVersion, to: AgentVersion, version = 'v1', lineage?: Lineage) => {
    const deps = memoryDeps();
    const top = await start(deps, from, lineage);
    return call(deps, top, to, {}, version).then(
      () => 'ok',
      (error) => error.code,
    );
  };

  test('only the dependencies of its manifest, at exact versions', async () => {
    expect(await refusal(agent('top', ['mid']), agent('mid'))).toBe('ok');
    expect(await refusal(agent('top', ['mid']), agent('other'))).toBe('DEPENDENCY_NOT_ALLOWED');
    expect(await refusal(agent('top', ['mid']), { ...agent('mid'), version: 2 }, 'v2')).toBe('DEPENDENCY_NOT_ALLOWED');
    expect(await refusal(agent('top', ['mid']), agent('mid'), 'latest')).toBe('DEPENDENCY_NOT_ALLOWED');
    expect(await refusal(agent('top'), agent('mid'))).toBe('DEPENDENCY_NOT_ALLOWED');
    expect(await refusal(agent('top', ['mid']), { ...agent('mid'), orgSlug: 'annie' })).toBe('DEPENDENCY_NOT_ALLOWED');
  });

  test('public agents, and private ones of its own workspace, not of the paying one', async () => {
    const elsewhere = (is_public: boolean) => agent('mid', [], {}, { is_public }, ELSEWHERE);
    expect(await refusal(agent('top', ['mid']), elsewhere(true))).toBe('ok');
    expect(await refusal(agent('top', ['mid']), elsewhere(false))).toBe('FORBIDDEN');
    expect(await refusal(agent('top', ['mid'], {}, {}, ELSEWHERE), elsewhere(false))).toBe('ok');
    expect(await refusal(agent('top', ['mid'], {}, {}, ELSEWHERE), agent('mid'))).toBe('FORBIDDEN');
  });

  test('only callable agents', async () => {
    expect(await refusal(agent('top', ['mid']), agent('mid', [], {}, { callable: false }))).toBe('AGENT_NOT_CALLABLE');
  });

  test('no agent above it in the chain, at any version', async () => {
    const below = (...chain: string[]): Lineage => ({ chain, maxHops: 5, budgets: [], isStrict: false, foreign: [] });
    expect(await refusal(agent('mid', ['top']), agent('top'), 'v1', below('ann/top@v1'))).toBe('DEPENDENCY_CYCLE');
    expect(await refusal(agent('mid', ['top']), agent('top'), 'v1', below('ann/top@v7'))).toBe('DEPENDENCY_CYCLE');
    expect(await refusal(agent('mid', ['top']), agent('top'), 'v1', below('ann/topmost@v1'))).toBe('ok');
    expect(await refusal(agent('top', ['top']), agent('top'))).toBe('DEPENDENCY_CYCLE');
  });
});

describe('hops', () => {
  test('are limited by the smallest limit above', async () => {
    const deps = memoryDeps();
    const tree = ['a', 'b', 'c', 'd'].map((name, index, all) => agent(name, all.slice(index + 1), { max_hops: 9 }));
    const run = async (hops?: number): Promise<string> => {
      let at = await start(deps, tree[0]!, topOfChain(tree[0]!, hops));
      for (const next of tree.slice(1)) {
        const lineage = await call(deps, at, next).catch((error) => error);
        if ('code' in lineage) return `${lineage.code} at ${next.name}`;
        at = await start(deps, next, lineage);
      }
      return 'ok';
    };
    expect(await run()).toBe('ok');
    expect(await run(3)).toBe('ok');
    expect(await run(2)).toBe('MAX_HOPS_EXCEEDED at d');
    expect(await run(0)).toBe('MAX_HOPS_EXCEEDED at b');
  });

  test('must suffice for the called agent', async () => {
    const deps = memoryDeps();
    const needy = agent('mid', ['leaf'], { min_required_hops: 2 });
    expect(() => topOfChain(needy, 1)).toThrow(expect.objectContaining({ code: 'MAX_HOPS_TOO_LOW' }));
    expect(topOfChain(needy, 2)).toMatchObject({ maxHops: 2 });
    const top = await start(deps, agent('top', ['mid'], { max_hops: 2 }));
    await expect(call(deps, top, needy)).rejects.toMatchObject({ code: 'MAX_HOPS_TOO_LOW' });
  });
});

describe('budgets', () => {
  test("limit a dependency call and all below it, not the top agent's own calls", async () => {
    const deps = memoryDeps();
    const top = await start(deps, agent('top', ['mid'], { per_call_downstream_cap: 3 }));
    for (let n = 0; n < 10; n++) await call(deps, top, agent('mid'));

    const mid = await start(deps, agent('mid', ['low']), await call(deps, top, agent('mid')));
    const low = await start(deps, agent('low', ['leaf']), await call(deps, mid, agent('low')));
    await call(deps, low, agent('leaf'));
    await call(deps, low, agent('leaf'));
    // Three calls are used up: one by mid itself, two by low.
    for (const [from, to] of [
      [low, 'leaf'],
      [mid, 'low'],
    ] as const) {
      await expect(call(deps, from, agent(to))).rejects.toMatchObject({
        code: 'BUDGET_EXCEEDED',
        message: expect.stringContaining('ann/mid@v1'),
      });
    }
    // A sibling run has a budget of its own.
    const sister = await start(deps, agent('mid', ['low']), await call(deps, top, agent('mid')));
    await call(deps, sister, agent('low'));
  });

  test('do not count a refused call', async () => {
    const deps = memoryDeps();
    const top = await start(deps, agent('top', ['mid'], { per_call_downstream_cap: 2 }));
    const mid = await start(
      deps,
      agent('mid', ['low'], { per_call_downstream_cap: 0 }),
      await call(deps, top, agent('mid')),
    );
    const low = await start(deps, agent('low', ['leaf']), await call(deps, mid, agent('low')));
    for (let n = 0; n < 5; n++) {
      await expect(call(deps, low, agent('leaf'))).rejects.toMatchObject({ code: 'BUDGET_EXCEEDED' });
      await expect(call(deps, mid, agent('other'))).rejects.toMatchObject({ code: 'DEPENDENCY_NOT_ALLOWED' });
    }
    await call(deps, mid, agent('low'));
    await expect(call(deps, mid, agent('low'))).rejects.toMatchObject({ code: 'BUDGET_EXCEEDED' });
  });

  test('are exact when 40 calls come at once', async () => {
    const deps = memoryDeps();
    const top = await start(deps, agent('top', ['mid'], { per_call_downstream_cap: 17 }));
    const mid = await start(deps, agent('mid', ['low']), await call(deps, top, agent('mid')));
    const results = await Promise.allSettled(Array.from({ length: 40 }, () => call(deps, mid, agent('low'))));
    expect(results.filter(({ status }) => status === 'fulfilled')).toHaveLength(17);
  });
});

describe('money', () => {
  const USD = 1_000_000;
  const capped = (name: string, calls: readonly string[], cents: number) =>
    agent(name, calls, { downstream_spend_cap: cents });
  const paid = (name: string, cents: number) =>
    agent(name, [], {}, { is_public: true, price_per_call_cents: cents } as Partial<AgentDefinition>, ELSEWHERE);

  test('limits what the calls below a run cost, also those of its dependencies, and not what the run costs itself', async () => {
    const deps = memoryDeps();
    const top = await start(deps, capped('top', ['mid'], 50));
    const lineage = await call(deps, top, agent('mid'));
    const mid = await start(deps, agent('mid', ['low']), lineage);
    const low = await call(deps, mid, agent('low'));
    await countSpend(deps, low.budgets, 0.3 * USD);
    await call(deps, top, agent('mid'));
    await countSpend(deps, lineage.budgets, 0.2 * USD);
    for (const [from, to] of [
      [top, 'mid'],
      [mid, 'low'],
    ] as const) {
      await expect(call(deps, from, agent(to))).rejects.toMatchObject({
        code: 'BUDGET_EXCEEDED',
        message: 'The calls below ann/top@v1 may cost $0.50 together and have cost $0.50.',
        extra: { hint: expect.stringContaining('downstream_spend_cap') },
      });
    }
    // Another run of the agent starts with a full budget.
    await call(deps, await start(deps, capped('top', ['mid'], 50)), agent('mid'));
  });

  test('is taken for paid calls when they are made, exactly when 20 come at once, and given back when they fail', async () => {
    const deps = memoryDeps();
    const top = await start(deps, capped('top', ['oracle'], 100));
    const results = await Promise.allSettled(Array.from({ length: 20 }, () => call(deps, top, paid('oracle', 30))));
    expect(results.filter(({ status }) => status === 'fulfilled')).toHaveLength(3);
    await expect(call(deps, top, paid('oracle', 30))).rejects.toThrow('have cost $0.90; the next one costs $0.30.');
    await call(deps, top, paid('oracle', 10));
    await expect(call(deps, top, paid('oracle', 0))).rejects.toThrow('have cost $1.00.');
    const [made] = results.flatMap((result) => (result.status === 'fulfilled' ? [result.value] : []));
    await countSpend(deps, made!.budgets, -0.3 * USD);
    await call(deps, top, paid('oracle', 30));
  });

  test('of nothing allows no call, and the innermost limit counts as well', async () => {
    const deps = memoryDeps();
    await expect(call(deps, await start(deps, capped('top', ['mid'], 0)), agent('mid'))).rejects.toThrow('$0.00');
    const top = await start(deps, capped('top', ['mid'], 100));
    const mid = await start(deps, capped('mid', ['oracle'], 20), await call(deps, top, agent('mid')));
    await expect(call(deps, mid, paid('oracle', 30))).rejects.toThrow('The calls below ann/mid@v1');
    await call(deps, mid, paid('oracle', 20));
    await expect(call(deps, mid, paid('oracle', 20))).rejects.toThrow('The calls below ann/mid@v1');
  });

  test('of the deepest chain is counted in one transaction', async () => {
    const deps = memoryDeps();
    const name = (level: number) => `a${level}`;
    let run = await start(deps, agent(name(0), [name(1)], { max_hops: 10, downstream_spend_cap: 50 }));
    for (let level = 1; level <= 10; level++) {
      const more = { max_hops: 10, downstream_spend_cap: 50 };
      const lineage = await call(deps, run, agent(name(level), [name(level + 1)], more));
      await countSpend(deps, lineage.budgets, 1000);
      run = await start(deps, agent(name(level), [name(level + 1)], more), lineage);
    }
    await expect(call(deps, run, agent(name(11)))).rejects.toMatchObject({ code: 'MAX_HOPS_EXCEEDED' });
  });
});

test('an agent that wants a budget is called with no smaller one', async () => {
  const deps = memoryDeps();
  const needy = agent('mid', ['low'], { recommended_min_caller_budget: 5 });
  const top = await start(deps, agent('top', ['mid'], { per_call_downstream_cap: 5 }));
  await call(deps, top, needy);
  await expect(call(deps, top, needy, { 'X-Platform-Downstream-Remaining': '4' })).rejects.toMatchObject({
    code: 'BUDGET_EXCEEDED',
    message: expect.stringContaining(
      'at least 5 calls (recommended_min_caller_budget), and this call of ann/top@v1 gives it 4',
    ),
    extra: { hint: 'Publish ann/top with a manifest.per_call_downstream_cap of at least 5.' },
  });
  // An agent cannot pass on a greater budget than its own.
  const outer = await start(deps, agent('outer', ['top'], { per_call_downstream_cap: 4 }));
  const inner = agent('top', ['mid'], { per_call_downstream_cap: 50 });
  const below = await start(deps, inner, await call(deps, outer, inner));
  await expect(call(deps, below, needy)).rejects.toMatchObject({ code: 'BUDGET_EXCEEDED' });
  // A user's call has no budget.
  topOfChain(needy);
});

test('a call past its deadline is refused with TIMEOUT', async () => {
  const deps = memoryDeps();
  const top = await start(deps, agent('top', ['mid']));
  const headers = { 'X-Platform-Deadline-Ms': String(deps.clock.now()) };
  await expect(call(deps, top, agent('mid'), headers)).rejects.toMatchObject({ code: 'TIMEOUT' });
});
