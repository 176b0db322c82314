import { FlowLogDestination, FlowLogTrafficType, IpAddresses, Vpc, type VpcProps } from 'aws-cdk-lib/aws-ec2';
import { LogGroup } from 'aws-cdk-lib/aws-logs';
import type { Construct } from 'constructs';
import type { Stage } from '../config.ts';
import { removalPolicyOf } from '../removal.ts';

export interface TenantVpcProps extends Pick<VpcProps, 'subnetConfiguration' | 'gatewayEndpoints'> {
  readonly stage: Stage;
  /** Last part of the name of its flow log. */
  readonly name: string;
  /** Addresses of the network, such as `10.64.0.0/20`. */
  readonly cidr: string;
  /** Availability Zones. @default - two that AWS chooses */
  readonly zones?: readonly string[] | undefined;
}

/** A network for code of tenants: without NAT, and with a log of the connections that it refuses. */
export function tenantVpc(scope: Construct, { stage, name, cidr, zones, ...props }: TenantVpcProps): Vpc {
  const vpc = new Vpc(scope, 'vpc', {
    ...props,
    ipAddresses: IpAddresses.cidr(cidr),
    ...(zones ? { availabilityZones: [...zones] } : { maxAzs: 2 }),
    natGateways: 0,
    // Nothing is in the default group, and closing it would take another function.
    restrictDefaultSecurityGroup: false,
  });
  // Accepted traffic is most of the volume, which costs by the gigabyte; attacks show in rejected traffic.
  const flowLog = vpc.addFlowLog('refused', {
    trafficType: FlowLogTrafficType.REJECT,
    destination: FlowLogDestination.toCloudWatchLogs(
      new LogGroup(scope, 'flow-log', {
        logGroupName: `/platform/${stage.name}/${name}`,
        retention: stage.logRetentionDays,
        removalPolicy: removalPolicyOf(stage),
      }),
    ),
  });
  // It needs the rights of its role, not only the role.
  flowLog.node.defaultChild!.node.addDependency(flowLog.iamRole!);
  return vpc;
}
