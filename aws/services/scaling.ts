import {
  type ApplicationAutoScalingClient,
  DeregisterScalableTargetCommand,
  PutScalingPolicyCommand,
  RegisterScalableTargetCommand,
} from '@aws-sdk/client-application-auto-scaling';
import type { ServiceOrder } from '#core/ports/service-host.ts';
import { isNamed } from '../named-error.ts';

const CPU_PERCENT = 60;

/** Auto scaling of running services whose maximum of instances exceeds their minimum. */
export class Scaling {
  readonly #client: ApplicationAutoScalingClient;
  readonly #cluster: string;

  constructor(client: ApplicationAutoScalingClient, cluster: string) {
    this.#client = client;
    this.#cluster = cluster;
  }

  async set({ id, minInstances, maxInstances }: ServiceOrder): Promise<void> {
    if (maxInstances <= minInstances) return this.remove(id);
    const target = this.#targetOf(id);
    await this.#client.send(
      new RegisterScalableTargetCommand({ ...target, MinCapacity: minInstances, MaxCapacity: maxInstances }),
    );
    await this.#client.send(
      new PutScalingPolicyCommand({
        ...target,
        PolicyName: 'cpu',
        PolicyType: 'TargetTrackingScaling',
        TargetTrackingScalingPolicyConfiguration: {
          TargetValue: CPU_PERCENT,
          PredefinedMetricSpecification: { PredefinedMetricType: 'ECSServiceAverageCPUUtilization' },
        },
      }),
    );
  }

  /** Also used for a pause, because AWS would start instances again. The policy is deleted with its target. */
  async remove(serviceId: string): Promise<void> {
    try {
      await this.#client.send(new DeregisterScalableTargetCommand(this.#targetOf(serviceId)));
    } catch (error) {
      const isNone = isNamed(error, 'ObjectNotFoundException') || /^No scalable target/.test((error as Error).message);
      if (!isNone) throw error;
    }
  }

  #targetOf(serviceId: string) {
    return {
      ServiceNamespace: 'ecs',
      ResourceId: `service/${this.#cluster}/${serviceId}`,
      ScalableDimension: 'ecs:service:DesiredCount',
    } as const;
  }
}
