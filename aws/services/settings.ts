import * as z from 'zod';
import { jsonText } from '#core/base/json-text.ts';
import { withoutEnd } from '#core/base/text.ts';

const name = () => z.string().min(1);

const common = {
  /** Name of the ECS cluster. */
  cluster: name(),
  subnets: z.array(name()).min(1),
  /** Whether tasks get public addresses, which a network without NAT needs. The group admits only load balancers. */
  public_ip: z.boolean().default(true),
  /** Security group of the tasks. */
  security_group: name(),
  /** The runner's image with its tag or digest. */
  image: name(),
  /** ARN of the role with which ECS pulls the image and writes logs. Tasks have no role. */
  execution_role: name(),
  /** Prefix of task definition families; the service's id follows it. */
  family_prefix: name(),
  /** Prefix of log groups; the service's id follows it. */
  log_group_prefix: name(),
  log_retention_days: z.number().int().positive(),
  stage: name(),
  /** CPU units of a task; 1024 units are one vCPU. */
  cpu: z.number().int().positive(),
  /** Memory of a task, in MiB. */
  memory_mb: z.number().int().positive(),
  /** Address of the API for instances. */
  api_url: z.url().transform((url) => withoutEnd(url, '/')),
};

const services = () =>
  z.discriminatedUnion('kind', [
    z.strictObject({
      ...common,
      kind: z.literal('ecs-gateway'),
      /** ARN of the ECS gateway that gives each service its address. */
      gateway: name(),
    }),
    z.strictObject({
      ...common,
      kind: z.literal('alb'),
      /** ARN of the HTTPS listener whose rules lead to the services. */
      listener: name(),
      /** Network of the target groups. */
      vpc: name(),
      /** A service's address is `https://<label>.<domain>`. */
      domain: name(),
    }),
  ]);

/**
 * Parses `PLATFORM_SERVICES`: where services run and how they are reached. Throws an error that names each invalid
 * member.
 */
export const parseServiceSettings = (text: string): ServiceSettings => parse('PLATFORM_SERVICES', services, text);

/**
 * Parses `PLATFORM_SERVICES_LOGS`, the location of the logs, for functions that only read them. Throws the same error.
 */
export const parseLogPlace = (text: string): LogPlace => parse('PLATFORM_SERVICES_LOGS', logPlace, text);

const logPlace = () => z.strictObject({ log_group_prefix: common.log_group_prefix });

function parse<Schema extends z.ZodType>(variable: string, schema: () => Schema, text: string): z.output<Schema> {
  const { data, error } = jsonText(schema).safeParse(text);
  if (error) throw new Error(`${variable}: ${error.issues.map(({ message }) => message).join(', ')}`);
  return data as z.output<Schema>;
}

export type LogPlace = z.output<ReturnType<typeof logPlace>>;
export type ServiceSettings = z.output<ReturnType<typeof services>>;
export type GatewaySettings = Extract<ServiceSettings, { kind: 'ecs-gateway' }>;
export type AlbSettings = Extract<ServiceSettings, { kind: 'alb' }>;
