import * as z from 'zod';
import { jsonText } from '#core/base/json-text.ts';

const name = () => z.string().min(1);

const common = {
  /** Name of the ECS cluster. */
  cluster: name(),
  subnets: z.array(name()).min(1),
  /** Of the tasks. */
  security_group: name(),
  /** Of the runner, with its tag or digest. */
  image: name(),
  /** ARN of the role by which ECS pulls the image and writes logs. Tasks have no role of their own. */
  execution_role: name(),
  /** The service's id follows it. */
  family_prefix: name(),
  /** The service's id follows it. */
  log_group_prefix: name(),
  log_retention_days: z.number().int().positive(),
  stage: name(),
  /** CPU units of a task; 1024 are one vCPU. */
  cpu: z.number().int().positive(),
  /** Memory of a task, in MiB. */
  memory_mb: z.number().int().positive(),
  /** Address of the API for instances. */
  api_url: z.url().transform((url) => url.replace(/\/+$/, '')),
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
      /** Of the target groups. */
      vpc: name(),
      /** A service's address is `https://<label>.<domain>`. */
      domain: name(),
    }),
  ]);

/** Where services run and how they are reached, as JSON. */
export const servicesSchema = () => jsonText(services);

/** Where the logs of services are, as JSON: for functions that only read them. */
export const serviceLogsSchema = () => jsonText(() => z.strictObject({ log_group_prefix: common.log_group_prefix }));
