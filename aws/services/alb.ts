import {
  CreateRuleCommand,
  CreateTargetGroupCommand,
  DeleteRuleCommand,
  DeleteTargetGroupCommand,
  DescribeTargetGroupsCommand,
  ElasticLoadBalancingV2Client,
  ModifyTargetGroupAttributesCommand,
  paginateDescribeRules,
  type Rule,
} from '@aws-sdk/client-elastic-load-balancing-v2';
import { GATEWAY_PORT, type ServiceRef } from '#core/ports/service-host.ts';
import { isNamed, unless } from '../named-error.ts';
import { type Addresses, CONTAINER_NAME, HEALTH_CHECK } from './addresses.ts';
import type { AlbSettings } from './settings.ts';
import { tagsOf } from './tags.ts';

/** Time that a replaced instance has for requests in flight. */
const DRAIN_SECONDS = 5;
const RULE_TRIES = 5;

/** Addresses through a load balancer of the stage: a target group and a host name rule for each service. */
export class AlbAddresses implements Addresses {
  readonly #elb: ElasticLoadBalancingV2Client;
  readonly #settings: Pick<AlbSettings, 'listener' | 'vpc' | 'domain' | 'stage'>;

  constructor(elb: ElasticLoadBalancingV2Client, settings: Pick<AlbSettings, 'listener' | 'vpc' | 'domain' | 'stage'>) {
    this.#elb = elb;
    this.#settings = settings;
  }

  async connect(service: ServiceRef) {
    const targetGroupArn = (await this.#findGroup(service.id)) ?? (await this.#createGroup(service));
    // Closes connections of ended services, which would otherwise be kept for five minutes.
    await this.#elb.send(
      new ModifyTargetGroupAttributesCommand({
        TargetGroupArn: targetGroupArn,
        Attributes: [{ Key: 'deregistration_delay.timeout_seconds', Value: String(DRAIN_SECONDS) }],
      }),
    );
    await this.#addRule(service, targetGroupArn);
    return { loadBalancers: [{ targetGroupArn, containerName: CONTAINER_NAME, containerPort: GATEWAY_PORT }] };
  }

  async disconnect(serviceId: string): Promise<void> {
    const targetGroupArn = await this.#findGroup(serviceId);
    if (targetGroupArn === undefined) return;
    for (const rule of (await this.#rules()).filter((each) => leadsTo(each, targetGroupArn))) {
      await this.#elb.send(new DeleteRuleCommand({ RuleArn: rule.RuleArn })).catch(unless('RuleNotFoundException'));
    }
    await this.#elb.send(new DeleteTargetGroupCommand({ TargetGroupArn: targetGroupArn }));
  }

  async addressOf({ label }: ServiceRef): Promise<string> {
    return `https://${this.#hostOf(label)}`;
  }

  async failures(): Promise<Map<string, string>> {
    return new Map();
  }

  #hostOf(label: string): string {
    return `${label}.${this.#settings.domain}`;
  }

  async #findGroup(serviceId: string): Promise<string | undefined> {
    const found = await this.#elb
      .send(new DescribeTargetGroupsCommand({ Names: [groupName(serviceId)] }))
      .catch(unless('TargetGroupNotFoundException'));
    return found?.TargetGroups?.[0]?.TargetGroupArn;
  }

  async #createGroup(service: ServiceRef): Promise<string> {
    const created = await this.#elb.send(
      new CreateTargetGroupCommand({
        Name: groupName(service.id),
        VpcId: this.#settings.vpc,
        TargetType: 'ip',
        Protocol: 'HTTP',
        Port: GATEWAY_PORT,
        HealthCheckPath: HEALTH_CHECK.path,
        HealthCheckTimeoutSeconds: HEALTH_CHECK.timeoutSeconds,
        HealthCheckIntervalSeconds: HEALTH_CHECK.intervalSeconds,
        HealthyThresholdCount: HEALTH_CHECK.healthyCount,
        UnhealthyThresholdCount: HEALTH_CHECK.unhealthyCount,
        Tags: this.#tagsOf(service),
      }),
    );
    return created.TargetGroups![0]!.TargetGroupArn!;
  }

  /** Adds a rule with the lowest free priority. Another service may take it concurrently. */
  async #addRule(service: ServiceRef, targetGroupArn: string): Promise<void> {
    for (let tries = 1; ; tries++) {
      const rules = await this.#rules();
      if (rules.some((rule) => leadsTo(rule, targetGroupArn))) return;
      const taken = new Set(rules.map(({ Priority }) => Number(Priority)));
      let priority = 1;
      while (taken.has(priority)) priority += 1;
      try {
        await this.#elb.send(
          new CreateRuleCommand({
            ListenerArn: this.#settings.listener,
            Priority: priority,
            Conditions: [{ Field: 'host-header', HostHeaderConfig: { Values: [this.#hostOf(service.label)] } }],
            Actions: [{ Type: 'forward', TargetGroupArn: targetGroupArn }],
            Tags: this.#tagsOf(service),
          }),
        );
        return;
      } catch (error) {
        if (tries === RULE_TRIES || !isNamed(error, 'PriorityInUseException')) throw error;
      }
    }
  }

  async #rules(): Promise<Rule[]> {
    const pages = paginateDescribeRules({ client: this.#elb }, { ListenerArn: this.#settings.listener });
    const rules: Rule[] = [];
    for await (const { Rules = [] } of pages) rules.push(...Rules);
    return rules;
  }

  #tagsOf(service: ServiceRef): { Key: string; Value: string }[] {
    return Object.entries(tagsOf(this.#settings.stage, service)).map(([Key, Value]) => ({ Key, Value }));
  }
}

/** The id without its hyphens: 32 characters, the maximum length of a name. */
const groupName = (serviceId: string): string => serviceId.replaceAll('-', '');

const leadsTo = ({ Actions = [] }: Rule, targetGroupArn: string): boolean =>
  Actions.some(({ TargetGroupArn }) => TargetGroupArn === targetGroupArn);

/** Uses the environment's Region and credentials. */
export const createAlbAddresses = (settings: AlbSettings): AlbAddresses =>
  new AlbAddresses(new ElasticLoadBalancingV2Client(), settings);
