import { FUNCTIONS } from '#lib/functions.ts';

/** Prices in US dollars for us-east-1 in November 2026, without free tiers. */
export const PRICES = {
  /** Fargate on ARM: aws.amazon.com/fargate/pricing. */
  cpuHour: 0.03238,
  gbHour: 0.00356,
  /** Public IPv4 address: aws.amazon.com/vpc/pricing. */
  addressHour: 0.005,
  /** aws.amazon.com/elasticloadbalancing/pricing. */
  balancerHour: 0.0225,
  capacityUnitHour: 0.008,
  /** aws.amazon.com/ec2/pricing/on-demand, Data Transfer. */
  gbOut: 0.09,
  /** aws.amazon.com/cloudwatch/pricing. */
  logGb: 0.5,
  /** Same as in write-costs.ts. */
  gatewayRequest: 3.5e-6,
  invocation: 0.2e-6,
  lambdaGbSecond: 0.0000133334,
  readUnit: 0.125e-6,
  writeUnit: 0.625e-6,
};
/** Hours of a month. */
export const HOURS = 730;
const MINUTES = HOURS * 60;
/** A load balancer has one address in each of two zones. */
const BALANCER_ADDRESSES = 2;
/** Maximum number of certificates per load balancer; a gateway has one per service. */
const SERVICES_A_BALANCER = 25;
/** Assumed duration of one run of the keeper without services, and of handling a report. */
const TICK_SECONDS = 0.25;
const REPORT_SECONDS = 0.05;
/** Queries of the service index, half a unit each, plus reads and writes for one service. */
const TICK_UNITS = 8;
const SERVICE_READS = 5;
const SERVICE_WRITES = 1;
const REPORT_READS = 3;
/** Size of request plus response, and of the response alone. */
const KB_A_REQUEST = 10;

const gb = (memoryMb: number): number => memoryMb / 1024;
const lambda = (fn: 'service-keeper' | 'service-instances', seconds: number): number =>
  PRICES.invocation + gb(FUNCTIONS[fn].memoryMb) * seconds * PRICES.lambdaGbSecond;
const tick = (): number => lambda('service-keeper', TICK_SECONDS) + TICK_UNITS * PRICES.readUnit;
const kept = (): number => SERVICE_READS * PRICES.readUnit + SERVICE_WRITES * PRICES.writeUnit;
const report = (): number =>
  PRICES.gatewayRequest + lambda('service-instances', REPORT_SECONDS) + REPORT_READS * PRICES.readUnit;
const task = (cpu: number, memoryMb: number): number =>
  HOURS * ((cpu / 1024) * PRICES.cpuHour + gb(memoryMb) * PRICES.gbHour);
const address = HOURS * PRICES.addressHour;
const balancer = HOURS * PRICES.balancerHour + BALANCER_ADDRESSES * address;
const platform = MINUTES * (kept() + report());

const usd = (amount: number): string => `$${amount.toFixed(2)}`;

/** Returns the section of docs/costs.md about always-on services. */
export function serviceCosts(): string {
  const rows = [
    ['a stage without a service: the look of each minute', MINUTES * tick(), MINUTES * tick() + balancer],
    ['the load balancer, from the first service on, paused ones included', balancer, 0],
    ['each instance: 0.25 vCPU, 0.5 GB on ARM', task(256, 512), task(256, 512)],
    ['each instance: 0.25 vCPU, 1 GB, as stages have it unless they say otherwise', task(256, 1024), task(256, 1024)],
    ['its public address', address, address],
    ['its reports, and what the platform does about it each minute', platform, platform],
    ['a paused service', 0, 0],
  ] as const;
  const instance = task(256, 512) + address + platform;
  const full = instance + balancer / SERVICES_A_BALANCER;
  const million = (KB_A_REQUEST * 1e6) / 1024 ** 2;
  return `## Always-on services

A month of 730 hours, prices of November 2026. They are calculated, not counted: durations of functions are assumed.

| what | by an ECS gateway | with a domain of yours |
| --- | --: | --: |
${rows.map(([what, gateway, own]) => `| ${what} | ${usd(gateway)} | ${usd(own)} |`).join('\n')}

- A small service with one instance of 0.5 GB costs ${usd(instance)}, and its share of the load balancer: ${usd(balancer)} if it is the only one,
  ${usd(balancer / SERVICES_A_BALANCER)} among ${SERVICES_A_BALANCER}, which makes ${usd(full)}. A gateway makes a further load balancer for each ${SERVICES_A_BALANCER} services (\`maxAlbs\` bounds
  them); the load balancer of a domain takes 100.
- _With a domain_ the load balancer is there from the deployment on, so that the first row has it.
- A paused service keeps its place at the load balancer and costs nothing else. Whether ECS removes the load balancer of a
  gateway after its last service is not documented.
- A million requests of ${KB_A_REQUEST} KB, request and answer together, are ${million.toFixed(1)} GB: ${usd(million * PRICES.capacityUnitHour)} for the load balancer, up to ${usd(million * PRICES.gbOut)} for data to the internet.
  No function of the platform sees them.
- Log lines are ${usd(PRICES.logGb)} a GB. A service that may have more instances than its minimum has two alarms, $0.20.
`;
}
