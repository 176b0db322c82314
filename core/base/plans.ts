import * as z from 'zod';
import { MAX_TIMEOUT_SECONDS } from './time-limits.ts';

/**
 * Plans of workspaces. `free` and `pro` are part of the interface (`docs/interface/limits.md#plans`), `team` and
 * `enterprise` are ours.
 */
export const PLAN_NAMES = ['free', 'pro', 'team', 'enterprise'] as const;
export type PlanName = (typeof PLAN_NAMES)[number];

const KB = 1024;
const MB = 1024 * KB;

/** Each running call has a lease in one item, which must stay small (`core/accounts/limits/admission.ts`). */
const MAX_CONCURRENT_CALLS = 200;

const plan = () => {
  const perDay = z.int().min(0).max(1_000_000_000);
  const seconds = z.int().min(1).max(MAX_TIMEOUT_SECONDS);
  const quota = z
    .int()
    .min(1)
    .max(2 ** 50);
  return z.strictObject({
    /** Calls of prompt agents a UTC day. */
    daily_calls: perDay,
    /** Calls of agents with a sandbox (programs and tool loops) a UTC day. */
    daily_sandbox_calls: perDay,
    /** Calls of paid agents a UTC day, which count for neither of the two: a cap on abuse. */
    daily_paid_calls: perDay,
    /** Calls of every kind that run at the same moment. */
    concurrent_calls: z.int().min(1).max(MAX_CONCURRENT_CALLS),
    /** Schedules that a workspace may have (not part of the free plan). */
    schedules: z.int().min(0).max(1_000_000),
    /** Longest call of a prompt agent. */
    timeout_seconds: seconds,
    /** Longest call of an agent with a sandbox. */
    sandbox_timeout_seconds: seconds,
    /** Namespaces of stored documents (`docs/interface/limits.md#plans`); null: no limit. */
    storage_namespaces: quota.nullable(),
    /** Documents in one namespace; null: no limit. */
    storage_documents: quota.nullable(),
    storage_document_bytes: quota,
    storage_bytes: quota.nullable(),
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
    schedules: 0,
    timeout_seconds: MAX_TIMEOUT_SECONDS,
    sandbox_timeout_seconds: 30,
    storage_namespaces: 5,
    storage_documents: 100,
    storage_document_bytes: 100 * KB,
    storage_bytes: 10 * MB,
  },
  pro: {
    daily_calls: 10_000,
    daily_sandbox_calls: 500,
    daily_paid_calls: 100_000,
    concurrent_calls: 50,
    schedules: 20,
    timeout_seconds: MAX_TIMEOUT_SECONDS,
    sandbox_timeout_seconds: MAX_TIMEOUT_SECONDS,
    storage_namespaces: 25,
    storage_documents: 1_000,
    storage_document_bytes: MB,
    storage_bytes: 100 * MB,
  },
  team: {
    daily_calls: 50_000,
    daily_sandbox_calls: 2_000,
    daily_paid_calls: 100_000,
    concurrent_calls: 100,
    schedules: 100,
    timeout_seconds: MAX_TIMEOUT_SECONDS,
    sandbox_timeout_seconds: MAX_TIMEOUT_SECONDS,
    storage_namespaces: 100,
    storage_documents: 10_000,
    storage_document_bytes: 5 * MB,
    storage_bytes: 1024 * MB,
  },
  enterprise: {
    daily_calls: 10_000_000,
    daily_sandbox_calls: 10_000_000,
    daily_paid_calls: 100_000,
    concurrent_calls: MAX_CONCURRENT_CALLS,
    schedules: 1_000_000,
    timeout_seconds: MAX_TIMEOUT_SECONDS,
    sandbox_timeout_seconds: MAX_TIMEOUT_SECONDS,
    storage_namespaces: null,
    storage_documents: null,
    storage_document_bytes: 10 * MB,
    storage_bytes: null,
  },
};

const changes = () => {
  const some = plan().partial().optional();
  return z.strictObject({ free: some, pro: some, team: some, enterprise: some } satisfies Record<PlanName, z.ZodType>);
};

/** JSON overrides of the default plans: `{"free": {"daily_calls": 2000}}`. Errors name each wrong member. */
export const plansSchema = () =>
  z
    .string()
    .transform((text, context): Plans => {
      const changed = changes().safeParse(jsonOf(text));
      for (const { path, message } of changed.error?.issues ?? []) {
        context.addIssue({ code: 'custom', message: path.length > 0 ? `${path.join('.')}: ${message}` : message });
      }
      if (!changed.success) return z.NEVER;
      const merged = PLAN_NAMES.map((name) => [name, { ...DEFAULT_PLANS[name], ...changed.data[name] }]);
      return Object.fromEntries(merged) as Plans;
    })
    .default(DEFAULT_PLANS);

function jsonOf(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}

/** The limits of a workspace's plan. A workspace without a plan of its own has the default plan. */
export function planOf(
  { config }: { readonly config: { readonly plans: Plans; readonly defaultPlan: PlanName } },
  { plan = config.defaultPlan }: { readonly plan?: PlanName },
): Plan & { readonly name: PlanName } {
  return { name: plan, ...config.plans[plan] };
}
