import * as z from 'zod';
import { egressTargetProblem } from '#core/outbound/egress-target.ts';
import type { ExecHead, RunnerJob } from './protocol.ts';

const MAX_TIMER_MS = 2 ** 31 - 1;

const link = z.strictObject({ key: z.string(), url: z.url({ protocol: /^https?$/ }) });
const bytes = z.int().positive();
const variables = z.record(z.string().regex(/^[^=\0]+$/), z.string().regex(/^[^\0]*$/));

export const jobSchema: z.ZodType<RunnerJob> = z.strictObject({
  token: z.string().min(32).max(200),
  lifetimeMs: z.number().positive().max(MAX_TIMER_MS),
  bundle: link.optional(),
  layer: link.optional(),
  layerSha256: z.string().optional(),
  env: variables,
  egress: z.union([z.enum(['open', 'none']), z.strictObject({ allow: z.array(z.string()) })]),
  egressTargets: z
    .strictObject({
      targets: z.array(z.string().refine((target) => egressTargetProblem(target) === undefined)),
      privateRanges: z.array(z.string()),
    })
    .optional(),
  purpose: z.enum(['run', 'install']),
  limits: z.strictObject({
    memoryBytes: bytes,
    cpuSeconds: z.number().positive(),
    processes: bytes,
    fileBytes: bytes,
    diskBytes: bytes,
  }),
  gateway: z.strictObject({ host: z.string(), port: z.int() }).optional(),
  registries: z.strictObject({ env: variables, allowHosts: z.array(z.string()) }).optional(),
  reuse: z.strictObject({ idleMs: z.number().positive(), maxUses: z.int().positive() }).optional(),
});

export const execSchema: z.ZodType<ExecHead> = z.strictObject({
  command: z.string().regex(/^[^\0]*$/, 'a command cannot hold a NUL character'),
  cwd: z
    .string()
    .startsWith('/')
    .regex(/^[^\0]*$/)
    .optional(),
  timeoutMs: z.number().max(MAX_TIMER_MS),
  maxOutputBytes: z.number().positive().optional(),
  endsAll: z.boolean().optional(),
  call: z.string().max(200).optional(),
});
