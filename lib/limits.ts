/** Limits of AWS that a deployment would reach only after minutes. Each function returns the problem, if any. */

/** Memory in MB that Fargate offers for each CPU size: docs.aws.amazon.com/AmazonECS/latest/developerguide/fargate-tasks-services.html. */
const FARGATE_MEMORY: {
  readonly [cpu: number]: { readonly min: number; readonly max: number; readonly step: number };
} = {
  256: { min: 512, max: 2048, step: 512 },
  512: { min: 1024, max: 4096, step: 1024 },
  1024: { min: 2048, max: 8192, step: 1024 },
  2048: { min: 4096, max: 16_384, step: 1024 },
  4096: { min: 8192, max: 30_720, step: 1024 },
};

export function fargateSizeProblem(cpu: number, memoryMb: number): string | undefined {
  const { min, max, step } = FARGATE_MEMORY[cpu]!;
  if (memoryMb >= min && memoryMb <= max && memoryMb % step === 0) return undefined;
  return `is ${memoryMb}, but Fargate offers ${min} to ${max} MB in steps of ${step} for ${cpu} CPU units: choose such a size, or another \`cpu\``;
}

/**
 * Slots that the records of the pool have room for (`aws/fargate/pool.ts`). AWS limits tasks by their processors, a quota
 * that it raises on request, and by 20 starts a second: docs.aws.amazon.com/AmazonECS/latest/developerguide/service-quotas.html.
 */
export const MAX_TASKS = 10_000;

/** Addresses of a subnet that AWS and the endpoints of the network take. */
const TAKEN_ADDRESSES = 8;
const addressesOf = (mask: number): number => 2 ** (32 - mask);

/** Returns the mask of the subnets of tasks, one in each zone, which together have an address for each task. */
export function taskSubnetMask(tasks: number, zones: number): number {
  let mask = 23;
  while (zones * (addressesOf(mask) - TAKEN_ADDRESSES) < tasks) mask--;
  return mask;
}

/** Each zone has further subnets of less than a /24 together: `constructs/sandbox-network.ts`. */
export function networkProblem(tasks: number, zones: number, cidr: string): string | undefined {
  const mask = taskSubnetMask(tasks, zones);
  const needed = zones * (addressesOf(mask) + addressesOf(24));
  if (needed <= addressesOf(Number(cidr.split('/')[1]))) return undefined;
  const fitting = Math.floor(32 - Math.log2(needed));
  return `is ${tasks}, for which the network ${cidr} has too few addresses in ${zones} zones: set \`cidr\` to a network of /${fitting}${fitting > 16 ? ' or larger' : ''}`;
}

/** Lambda's environment variables have 4 KB together, of which `test/stacks` leaves the platform's own the rest. */
export const MAX_SETTINGS_BYTES = 2600;

/** @param variables environment variables that follow from the operator's settings, in every function */
export function environmentProblem(variables: Readonly<Record<string, string>>): string | undefined {
  const bytes = Buffer.byteLength(JSON.stringify(variables));
  if (bytes <= MAX_SETTINGS_BYTES) return undefined;
  const [largest] = Object.entries(variables).sort(([, a], [, b]) => b.length - a.length);
  return `has ${bytes} bytes together with the members for egress, sign-in and telemetry, but the environment of a Lambda function has room for ${MAX_SETTINGS_BYTES}: shorten ${largest![0]}, the largest`;
}

/**
 * Lambda raises the concurrency of an account to tens of thousands, and 100 of it cannot be reserved:
 * docs.aws.amazon.com/lambda/latest/dg/gettingstarted-limits.html and configuration-concurrency.html.
 */
const MAX_RESERVED = 99_999 - 100;

export function concurrencyProblem(executions: Readonly<Record<string, number | undefined>>): string | undefined {
  const total = Object.values(executions).reduce<number>((sum, each) => sum + (each ?? 0), 0);
  if (total <= MAX_RESERVED) return undefined;
  return `sets aside ${total} executions, but no account can have more than ${MAX_RESERVED}: lower them to what Service Quotas shows for "Concurrent executions", less 100`;
}

/** Regions with Lambda MicroVMs in October 2026. */
const MICROVM_REGIONS = [
  'ap-east-1',
  'ap-northeast-1',
  'ap-south-1',
  'ap-southeast-1',
  'ap-southeast-2',
  'ap-southeast-5',
  'ap-southeast-7',
  'eu-central-1',
  'eu-north-1',
  'eu-south-2',
  'eu-west-1',
  'us-east-1',
  'us-east-2',
  'us-west-2',
];

/** Context of the CDK app with Regions that have got MicroVMs since, as an array, or separated by commas. */
export const MORE_MICROVM_REGIONS = 'agent-platform:microvmRegions';

export function microvmRegionProblem(region: string, more: unknown): string | undefined {
  const all = [...MICROVM_REGIONS, ...(Array.isArray(more) ? more : String(more ?? '').split(','))];
  if (all.includes(region)) return undefined;
  return `is "microvm", but ${region} had no Lambda MicroVMs when this version was released: choose "fargate", or one of ${MICROVM_REGIONS.join(', ')}; if AWS offers them there by now, name the Region in the context "${MORE_MICROVM_REGIONS}"`;
}
