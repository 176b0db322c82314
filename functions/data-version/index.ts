import { DynamoDBClient } from '@aws-sdk/client-dynamodb';
import { takeSecretsPlace } from '#aws/secrets/place.ts';
import { isEmpty, takeDataVersion } from '#aws/tables/data-version.ts';
import { DynamoTable } from '#aws/tables/dynamo-table.ts';
import { PROJECTIONS } from '#core/ports/table-rules.ts';
import { type CustomResourceWork, customResource } from '../custom-resource.ts';
import { host } from '../host.ts';

const client = new DynamoDBClient();
const { tablePrefix } = host.config;
const main = new DynamoTable(client, `${tablePrefix}main`, host.clock, PROJECTIONS.main);

const take: CustomResourceWork['onCreate'] & CustomResourceWork['onUpdate'] = async ({ ResourceProperties }) => {
  // The version of the data makes the table a used one.
  await takeSecretsPlace(main, ResourceProperties.Secrets, await isEmpty(client, `${tablePrefix}main`));
  await takeDataVersion(client, tablePrefix);
};

/**
 * Fails the deployment of functions that do not support the version of the data, or would not find all secrets of
 * workspaces.
 */
export const handler = customResource({ onCreate: take, onUpdate: take });
