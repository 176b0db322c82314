export type Task = {
    id: string;
    title: string;
    description: string | null;
    status: 'open' | 'in_progress' | 'done' | 'cancelled';
    priority: 'low' | 'normal' | 'high' | 'urgent';
    /**
     * YYYY-MM-DD
     */
    due_date: string | null;
    project: string | null;
    created_by: string | null;
    created_at: string;
    completed_at: string | null;
};
export type TaskMembers = Partial<Pick<Task, 'title' | 'description' | 'status' | 'priority' | 'due_date' | 'project'>>;
/**
 * @typedef {object} Task
 * @property {string} id
 * @property {string} title
 * @property {string | null} description
 * @property {'open' | 'in_progress' | 'done' | 'cancelled'} status
 * @property {'low' | 'normal' | 'high' | 'urgent'} priority
 * @property {string | null} due_date YYYY-MM-DD
 * @property {string | null} project
 * @property {string | null} created_by
 * @property {string} created_at
 * @property {string | null} completed_at
 */
/** @typedef {Partial<Pick<Task, 'title' | 'description' | 'status' | 'priority' | 'due_date' | 'project'>>} TaskMembers */
/**
 * @param {TaskMembers & { title: string }} members
 * @returns {Promise<Task>}
 */
export declare const create: (members: TaskMembers & {
    title: string;
}) => Promise<Task>;
/**
 * One page of tasks: `limit` is 50 by default, at most 200. `overdue`: only open ones whose due date has passed.
 *
 * @param {{
 *   limit?: number,
 *   offset?: number,
 *   status?: Task['status'],
 *   project?: string,
 *   priority?: Task['priority'],
 *   overdue?: boolean,
 * }} [query]
 * @returns {Promise<Task[]>}
 */
export declare const list: (query?: {
    limit?: number;
    offset?: number;
    status?: Task['status'];
    project?: string;
    priority?: Task['priority'];
    overdue?: boolean;
}) => Promise<Task[]>;
/**
 * @param {string} id
 * @returns {Promise<Task>}
 */
export declare const get: (id: string) => Promise<Task>;
/**
 * @param {string} id
 * @param {TaskMembers} members
 * @returns {Promise<Task>}
 */
export declare const update: (id: string, members: TaskMembers) => Promise<Task>;
/**
 * @param {string} id
 * @returns {Promise<Task>}
 */
export declare const complete: (id: string) => Promise<Task>;
/**
 * @param {string} id
 * @returns {Promise<void>}
 */
declare const remove: (id: string) => Promise<void>;
export { remove as delete };
