import * as z from 'zod';
import { A2aError } from './errors.ts';

const MAX_PARTS = 100;
const metadata = z.looseObject({}).nullish();
/** A context that no agent of the platform can serve is refused, so its form is not checked here. */
const id = z.string().max(256);

const part = z.looseObject({
  text: z.string().nullish(),
  raw: z.string().nullish(),
  url: z.string().nullish(),
  data: z.json().optional(),
  mediaType: z.string().max(255).nullish(),
  filename: z.string().max(1000).nullish(),
});
export type SentPart = z.output<typeof part>;

const message = z.looseObject({
  messageId: z.string().min(1).max(256),
  contextId: id.nullish(),
  taskId: id.nullish(),
  role: z.literal('ROLE_USER', { error: 'must be "ROLE_USER"' }),
  parts: z.array(part).min(1).max(MAX_PARTS),
  metadata,
});
export type SentMessage = z.output<typeof message>;

/** There is no tenant in the card, so a client has none to name: it would take its tasks for separate ones. */
const tenant = z.literal('', { error: 'must be absent: the header x-platform-tenant names a tenant' }).nullish();

const visible = (max: number) =>
  z
    .string()
    .max(max)
    .regex(/^[\x20-\x7e]*$/, 'must be printable ASCII');
const push = z.looseObject({
  tenant,
  id: z
    .string()
    .max(64)
    .regex(/^[\w.-]*$/, 'must be letters, digits, ".", "_" or "-"')
    .nullish(),
  url: z.string().min(1).max(2048),
  token: visible(1024).nullish(),
  authentication: z
    .looseObject({
      scheme: z.string().regex(/^[\w.+~-]{1,64}$/, 'must be a scheme of HTTP, such as "Bearer"'),
      credentials: visible(4096).nullish(),
    })
    .nullish(),
});
export type SentPush = z.output<typeof push>;

export const sendParams = z.looseObject({
  tenant,
  message,
  configuration: z
    .looseObject({
      acceptedOutputModes: z.array(z.string().max(255)).max(100).nullish(),
      returnImmediately: z.boolean().nullish(),
      taskPushNotificationConfig: push.nullish(),
    })
    .nullish(),
  metadata,
});
export type SendParams = z.output<typeof sendParams>;

export const taskParams = z.looseObject({ tenant, id });

export const createPushParams = push.extend({ taskId: id });
export const pushParams = z.looseObject({ tenant, taskId: id, id });
export const listPushParams = z.looseObject({ tenant, taskId: id });

const STATES = [
  'TASK_STATE_UNSPECIFIED',
  'TASK_STATE_SUBMITTED',
  'TASK_STATE_WORKING',
  'TASK_STATE_INPUT_REQUIRED',
  'TASK_STATE_COMPLETED',
  'TASK_STATE_FAILED',
  'TASK_STATE_CANCELED',
  'TASK_STATE_REJECTED',
  'TASK_STATE_AUTH_REQUIRED',
] as const;

export const listParams = z.looseObject({
  tenant,
  contextId: id.nullish(),
  status: z.enum(STATES).nullish(),
  pageSize: z.coerce.number().int().min(0).max(100).nullish(),
  pageToken: z.string().max(1000).nullish(),
  statusTimestampAfter: z.iso.datetime({ offset: true }).nullish(),
  includeArtifacts: z.union([z.boolean(), z.stringbool()]).nullish(),
});
export type ListParams = z.output<typeof listParams>;

/** Returns the parameters of a method. Throws InvalidParams that names the first member that is wrong. */
export function checked<Schema extends z.ZodType>(schema: Schema, params: unknown): z.output<Schema> {
  const { success, data, error } = schema.safeParse(params ?? {});
  if (success) return data;
  const { path, message: text } = error.issues[0]!;
  throw new A2aError('InvalidParams', `${path.join('.') || 'params'}: ${text}`);
}
