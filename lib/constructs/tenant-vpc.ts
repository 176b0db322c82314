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
import { Role } from 'aws-cdk-lib/aws-iam';
import { LogGroup } from 'aws-cdk-lib/aws-logs';
import type { Construct } from 'constructs';
import { platformPathOf, type Stage } from '../config.ts';
import { removalPolicyOf } from '../removal.ts';
import { serviceOfThisAccount } from './trust.ts';

export interface TenantVpcProps extends Pick<VpcProps, 'subnetConfiguration' | 'gatewayEndpoints'> {
  readonly stage: Stage;
  /** Last part of the name of its flow log. */
  readonly name: string;
  /** Address range of the network, such as `10.64.0.0/20`. */
  readonly cidr: string;
  /** Availability Zones. @default - two that AWS chooses */
  readonly zones?: readonly string[] | undefined;
  /** Whether private subnets reach the internet through a NAT gateway in each zone. @default false */
  readonly hasNat?: boolean;
}

/** Creates a network for tenant code, with a log of the connections that it rejects. */
export function tenantVpc(
  scope: Construct,
  { stage, name, cidr, zones, hasNat = false, ...props }: TenantVpcProps,
): Vpc {
  const vpc = new Vpc(scope, 'vpc', {
    ...props,
    ipAddresses: IpAddresses.cidr(cidr),
    ...(zones ? { availabilityZones: [...zones] } : { maxAzs: 2 }),
    ...(!hasNat && { natGateways: 0 }),
    // The default group is unused, and closing it would require another function.
    restrictDefaultSecurityGroup: false,
  });
  // Accepted traffic is most of the volume, which is billed by the gigabyte; attacks show in rejected traffic.
  const flowLog = vpc.addFlowLog('refused', {
    trafficType: FlowLogTrafficType.REJECT,
    destination: FlowLogDestination.toCloudWatchLogs(
      new LogGroup(scope, 'flow-log', {
        logGroupName: `/${platformPathOf(stage)}/${name}`,
        retention: stage.logRetentionDays,
        removalPolicy: removalPolicyOf(stage),
      }),
      new Role(scope, 'flow-log-role', { assumedBy: serviceOfThisAccount('vpc-flow-logs.amazonaws.com') }),
    ),
  });
  // Depends on the role's policy, not only on the role.
  flowLog.node.defaultChild!.node.addDependency(flowLog.iamRole!);
  return vpc;
}

/** Imports an existing network. Its zones are those of the subnets, which are unknown here and not needed. */
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
