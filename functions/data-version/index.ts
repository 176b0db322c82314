import { DynamoDBClient } from '@aws-sdk/client-dynamodb';
import { takeDataVersion } from '#aws/tables/data-version.ts';
import { customResource } from '../custom-resource.ts';
import { host } from '../host.ts';

const client = new DynamoDBClient();
const take = () => takeDataVersion(client, host.config.tablePrefix);

/** Fails the deployment of functions that do not support the version of the data. */
export const handler = customResource({ onCreate: take, onUpdate: take });
