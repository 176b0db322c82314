import * as z from 'zod';
import { jsonText } from './json-text.ts';
import { MAX_ACTIVE_SECONDS, MAX_TIMEOUT_SECONDS, MAX_WAIT_SECONDS } from './time-limits.ts';

/**
 * Plans of workspaces. `free` and `pro` are part of the interface (`docs/interface/limits.md#plans`); `team` and
 * `enterprise` are additions of this platform.
 */
export const PLAN_NAMES = ['free', 'pro', 'team', 'enterprise'] as const;
export type PlanName = (typeof PLAN_NAMES)[number];

const KB = 1024;
const MB = 1024 * KB;
const GB = 1024 * MB;
const DAY = 24 * 3600;

/**
 * Default concurrency of an AWS account. Each running call has a lease, 50 leases share an item, and a call that finds
 * no free slot reads all these items (`core/accounts/limits/admission.ts`).
 */
const MAX_CONCURRENT_CALLS = 1000;
/** What hosts unpack, whatever the plan (`core/manifest/bundle/layer-reader.ts`). */
export const MAX_LAYER_BYTES = 4 * GB;
/** Each installation has a lease, too (`core/accounts/limits/installations.ts`). */
const MAX_CONCURRENT_INSTALLS = 100;

/** A process holds a snapshot in memory while it encrypts it (`core/execution/durable/files.ts`). */
const MAX_SNAPSHOT_BYTES = 256 * MB;

const plan = () => {
  const perDay = z.int().min(0).max(1_000_000_000);
  const seconds = z.int().min(1).max(MAX_TIMEOUT_SECONDS);
  const quota = z
    .int()
    .min(1)
    .max(2 ** 50);
  return z.strictObject({
    /** Calls of prompt agents per UTC day. */
    daily_calls: perDay,
    /** Calls of agents with a sandbox (programs and tool loops) per UTC day. */
    daily_sandbox_calls: perDay,
    /** Calls of paid agents per UTC day, which count against neither of the two quotas above: a cap on abuse. */
    daily_paid_calls: perDay,
    /** Concurrent calls of all kinds. */
    concurrent_calls: z.int().min(1).max(MAX_CONCURRENT_CALLS),
    /**
     * Runs that wait: for the time at which they begin (`docs/interface/calls.md#later`), or for people, time and events
     * (`docs/interface/approvals.md`).
     */
    waiting_runs: z.int().min(0).max(1_000_000),
    /** Concurrent installations of dependencies after uploads. */
    concurrent_installs: z.int().min(1).max(MAX_CONCURRENT_INSTALLS),
    /** Schedules per workspace (not part of the free plan). */
    schedules: z.int().min(0).max(1_000_000),
    /** Services per workspace, paused ones included (not part of the free plan). */
    services: z.int().min(0).max(100_000),
    /** Instances of one service. */
    service_instances: z.int().min(1).max(1_000),
    /** CPU time for checking schemas, manifests, bundles and refused calls (`docs/interface/limits.md#checks`). */
    validation_ms_per_minute: quota,
    /** Maximum duration of a call of a prompt agent. */
    timeout_seconds: seconds,
    /** Maximum duration of a call of an agent with a sandbox. */
    sandbox_timeout_seconds: seconds,
    /** Maximum time that a durable run is worked on (`docs/interface/durable-runs.md`). */
    durable_seconds: z.int().min(1).max(MAX_ACTIVE_SECONDS),
    /** Maximum time that a durable run waits for people, time and events, in total. */
    wait_seconds: z.int().min(1).max(MAX_WAIT_SECONDS),
    /** Maximum size of the files that a durable run keeps when it moves to another sandbox. */
    snapshot_bytes: z.int().min(MB).max(MAX_SNAPSHOT_BYTES),
    /** Namespaces of stored documents (`docs/interface/limits.md#plans`); null: no limit. */
    storage_namespaces: quota.nullable(),
    /** Documents per namespace; null: no limit. */
    storage_documents: quota.nullable(),
    storage_document_bytes: quota,
    storage_bytes: quota.nullable(),
    /** Agent versions, including deleted ones until they are purged; null: no limit. */
    agent_versions: quota.nullable(),
    /** Bytes of the definitions, bundles and layers of these versions; null: no limit. */
    agent_bytes: quota.nullable(),
    /** Size on disk of the installed dependencies of one version. At most half of it packed. */
    layer_bytes: z
      .int()
      .min(64 * MB)
      .max(MAX_LAYER_BYTES),
    /** Bytes of what was said in sessions (`docs/interface/sessions.md`); null: no limit. */
    session_bytes: quota.nullable(),
    /** Total size reserved by unexpired upload forms (`POST /uploads`); null: no limit. */
    upload_bytes: quota.nullable(),
    /** Workspaces that a user may create, by the plan of the personal workspace; null: no limit. */
    workspaces: quota.nullable(),
  });
};
export type Plan = Readonly<z.output<ReturnType<typeof plan>>>;
export type Plans = { readonly [Name in PlanName]: Plan };

const DEFAULT_PLANS: Plans = {
  free: {
    daily_calls: 1_000,
    daily_sandbox_calls: 50,
    daily_paid_calls: 100_000,
    concurrent_calls: 10,
    waiting_runs: 10,
    concurrent_installs: 2,
    schedules: 0,
    services: 0,
    service_instances: 1,
    validation_ms_per_minute: 10_000,
    timeout_seconds: MAX_TIMEOUT_SECONDS,
    sandbox_timeout_seconds: 30,
    durable_seconds: 30,
    wait_seconds: DAY,
    snapshot_bytes: 100 * MB,
    storage_namespaces: 5,
    storage_documents: 100,
    storage_document_bytes: 100 * KB,
    storage_bytes: 10 * MB,
    agent_versions: 500,
    agent_bytes: GB,
    layer_bytes: GB,
    session_bytes: 10 * MB,
    upload_bytes: 100 * MB,
    workspaces: 5,
  },
  pro: {
    daily_calls: 10_000,
    daily_sandbox_calls: 500,
    daily_paid_calls: 100_000,
    concurrent_calls: 50,
    waiting_runs: 1_000,
    concurrent_installs: 4,
    schedules: 20,
    services: 5,
    service_instances: 3,
    validation_ms_per_minute: 20_000,
    timeout_seconds: MAX_TIMEOUT_SECONDS,
    sandbox_timeout_seconds: MAX_TIMEOUT_SECONDS,
    durable_seconds: 3600,
    wait_seconds: 7 * DAY,
    snapshot_bytes: 256 * MB,
    storage_namespaces: 25,
    storage_documents: 1_000,
    storage_document_bytes: MB,
    storage_bytes: 100 * MB,
    agent_versions: 5_000,
    agent_bytes: 10 * GB,
    layer_bytes: 2 * GB,
    session_bytes: GB,
    upload_bytes: 2_500 * MB,
    workspaces: 20,
  },
  team: {
    daily_calls: 50_000,
    daily_sandbox_calls: 2_000,
    daily_paid_calls: 100_000,
    concurrent_calls: 100,
    waiting_runs: 10_000,
    concurrent_installs: 8,
    schedules: 100,
    services: 20,
    service_instances: 10,
    validation_ms_per_minute: 40_000,
    timeout_seconds: MAX_TIMEOUT_SECONDS,
    sandbox_timeout_seconds: MAX_TIMEOUT_SECONDS,
    durable_seconds: 4 * 3600,
    wait_seconds: MAX_WAIT_SECONDS,
    snapshot_bytes: 256 * MB,
    storage_namespaces: 100,
    storage_documents: 10_000,
    storage_document_bytes: 5 * MB,
    storage_bytes: GB,
    agent_versions: 20_000,
    agent_bytes: 50 * GB,
    layer_bytes: MAX_LAYER_BYTES,
    session_bytes: 10 * GB,
    upload_bytes: 10 * GB,
    workspaces: 100,
  },
  enterprise: {
    daily_calls: 10_000_000,
    daily_sandbox_calls: 10_000_000,
    daily_paid_calls: 100_000,
    concurrent_calls: 200,
    waiting_runs: 100_000,
    concurrent_installs: 20,
    schedules: 1_000_000,
    services: 1_000,
    service_instances: 100,
    validation_ms_per_minute: 60_000,
    timeout_seconds: MAX_TIMEOUT_SECONDS,
    sandbox_timeout_seconds: MAX_TIMEOUT_SECONDS,
    durable_seconds: 8 * 3600,
    wait_seconds: MAX_WAIT_SECONDS,
    snapshot_bytes: 256 * MB,
    storage_namespaces: null,
    storage_documents: null,
    storage_document_bytes: 10 * MB,
    storage_bytes: 100 * GB,
    agent_versions: 200_000,
    agent_bytes: 500 * GB,
    layer_bytes: MAX_LAYER_BYTES,
    session_bytes: 100 * GB,
    upload_bytes: 100 * GB,
    workspaces: 1_000,
  },
};

const changes = () => {
  const some = plan().partial().optional();
  return z.strictObject({ free: some, pro: some, team: some, enterprise: some } satisfies Record<PlanName, z.ZodType>);
};

/** JSON overrides of the default plans: `{"free": {"daily_calls": 2000}}`. Errors name each wrong member. */
export const plansSchema = () =>
  jsonText(changes)
    .transform(
      (changed) =>
        Object.fromEntries(PLAN_NAMES.map((name) => [name, { ...DEFAULT_PLANS[name], ...changed[name] }])) as Plans,
    )
    .default(DEFAULT_PLANS);

/** Cached because each step of a call reads its plan. */
const named = new WeakMap<Plan, Plan & { readonly name: PlanName }>();

/** The limits of a workspace's plan. A workspace without a plan of its own has the default plan. */
export function planOf(
  { config }: { readonly config: { readonly plans: Plans; readonly defaultPlan: PlanName } },
  { plan = config.defaultPlan }: { readonly plan?: PlanName },
): Plan & { readonly name: PlanName } {
  const limits = config.plans[plan];
  let known = named.get(limits);
  if (known === undefined) {
    known = { name: plan, ...limits };
    named.set(limits, known);
  }
  return known;
}
