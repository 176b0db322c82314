import { Validations } from 'aws-cdk-lib';
import {
  FlowLogDestination,
  FlowLogTrafficType,
  IpAddresses,
  type IVpc,
  Subnet,
  type SubnetSelection,
  Vpc,
  type VpcProps,
} from 'aws-cdk-lib/aws-ec2';
import { LogGroup } from 'aws-cdk-lib/aws-logs';
import type { Construct } from 'constructs';
import { platformPathOf, type Stage } from '../config.ts';
import { removalPolicyOf } from '../removal.ts';

export interface TenantVpcProps extends Pick<VpcProps, 'subnetConfiguration' | 'gatewayEndpoints'> {
  readonly stage: Stage;
  /** Last part of the name of its flow log. */
  readonly name: string;
  /** Addresses of the network, such as `10.64.0.0/20`. */
  readonly cidr: string;
  /** Availability Zones. @default - two that AWS chooses */
  readonly zones?: readonly string[] | undefined;
  /** Whether private subnets reach the internet, by a NAT gateway in each zone. @default false */
  readonly hasNat?: boolean;
}

/** A network for code of tenants, with a log of the connections that it refuses. */
export function tenantVpc(
  scope: Construct,
  { stage, name, cidr, zones, hasNat = false, ...props }: TenantVpcProps,
): Vpc {
  const vpc = new Vpc(scope, 'vpc', {
    ...props,
    ipAddresses: IpAddresses.cidr(cidr),
    ...(zones ? { availabilityZones: [...zones] } : { maxAzs: 2 }),
    ...(!hasNat && { natGateways: 0 }),
    // Nothing is in the default group, and closing it would take another function.
    restrictDefaultSecurityGroup: false,
  });
  // Accepted traffic is most of the volume, which costs by the gigabyte; attacks show in rejected traffic.
  const flowLog = vpc.addFlowLog('refused', {
    trafficType: FlowLogTrafficType.REJECT,
    destination: FlowLogDestination.toCloudWatchLogs(
      new LogGroup(scope, 'flow-log', {
        logGroupName: `/${platformPathOf(stage)}/${name}`,
        retention: stage.logRetentionDays,
        removalPolicy: removalPolicyOf(stage),
      }),
    ),
  });
  // It needs the rights of its role, not only the role.
  flowLog.node.defaultChild!.node.addDependency(flowLog.iamRole!);
  return vpc;
}

/** A network that exists. Its zones are those of the subnets, which only the account knows; nothing here asks for them. */
export const importedVpc = (scope: Construct, vpcId: string): IVpc =>
  Vpc.fromVpcAttributes(scope, 'vpc', { vpcId, availabilityZones: ['of-the-subnets'] });

export function subnetsOf(scope: Construct, id: string, subnetIds: readonly string[]): SubnetSelection {
  const subnets = subnetIds.map((subnetId, index) => Subnet.fromSubnetId(scope, `${id}-subnet-${index}`, subnetId));
  for (const subnet of subnets) {
    Validations.of(subnet).acknowledge({
      id: 'Annotation::@aws-cdk/aws-ec2:noSubnetRouteTableId',
      reason: 'Nothing here changes routes of a network that exists.',
    });
  }
  return { subnets };
}
