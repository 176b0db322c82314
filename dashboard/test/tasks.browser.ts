import { beforeAll, expect, test } from 'vitest';
import { checkAccess, describeSite } from './browser.ts';

const HOSTILE = '<img src=x onerror=alert(1)> [link](javascript:alert(1))';

describeSite('tasks', (site) => {
  let workspace_id: string;
  const act = { headers: { 'x-workspace-id': '' } };
  const make = async (body: Parameters<typeof site.client.createTask>[0]['body']) =>
    (await site.client.createTask({ body, ...act } as never)).id;
  const statusOf = async (task_id: string) =>
    (await site.client.getTask({ params: { task_id }, ...act } as never)).status;
  beforeAll(async () => {
    workspace_id = (await site.client.listWorkspaces({})).workspaces.find(({ slug }) => slug === 'acme')!.id;
    act.headers['x-workspace-id'] = workspace_id;
  });

  test('a task is made, moved by keyboard, by menu and by mouse, changed, and deleted with an undo', async () => {
    for (const { id: task_id } of (await site.client.listWorkspaceTasks({ params: { workspace_id } })).tasks) {
      await site.client.deleteTask({ params: { task_id }, ...act } as never);
    }
    const page = await site.open('/acme/tasks');
    await page.getByText('No tasks yet').waitFor();
    await page.getByRole('button', { name: 'New task' }).click();
    await page.getByLabel('Title').fill('Check the report');
    await page.getByLabel('Due date').fill('2020-01-01');
    await page.getByRole('button', { name: 'Create task' }).click();
    const column = (name: string) => page.getByRole('region', { name, exact: true });
    const card = (name: string) => column(name).getByRole('link', { name: 'Check the report' });
    await card('Open').waitFor();
    await column('Open').getByText('2020-01-01 overdue').waitFor();
    const { tasks } = await site.client.listWorkspaceTasks({ params: { workspace_id } });
    const { id } = tasks.find(({ title }) => title === 'Check the report')!;

    await card('Open').focus();
    await page.keyboard.press('Shift+ArrowRight');
    await card('In progress').waitFor();
    expect(await statusOf(id)).toBe('in_progress');
    // The focus follows the task.
    await expect.poll(() => page.evaluate('document.activeElement.textContent')).toBe('Check the report');
    await page.keyboard.press('Shift+ArrowRight');
    await card('Done').waitFor();
    await page.getByRole('button', { name: 'Undo' }).last().click();
    await card('In progress').waitFor();
    await page.getByRole('button', { name: 'Move Check the report' }).click();
    await page.getByRole('menuitem', { name: 'Cancelled' }).click();
    await card('Cancelled').waitFor();
    await column('Cancelled').getByRole('listitem').dragTo(column('Open'));
    await card('Open').waitFor();
    expect(await statusOf(id)).toBe('open');

    await card('Open').click();
    expect(page.url()).toContain(`task=${id}`);
    await page.getByRole('dialog').getByLabel('Project').fill('reports');
    await page.getByRole('button', { name: 'Save' }).click();
    await column('Open').getByText('reports').waitFor();

    await card('Open').click();
    await page.getByRole('button', { name: 'Delete task' }).click();
    await card('Open').waitFor({ state: 'detached' });
    await page.getByRole('button', { name: 'Undo' }).last().click();
    await card('Open').waitFor();
    expect(await statusOf(id)).toBe('open');
    await card('Open').click();
    await page.getByRole('button', { name: 'Delete task' }).click();
    await card('Open').waitFor({ state: 'detached' });
    const found = async () =>
      (await site.client.listWorkspaceTasks({ params: { workspace_id } })).tasks.some((task) => task.id === id);
    await expect.poll(found, { timeout: 20_000 }).toBe(false);
    await page.reload();
    await page.getByText('No tasks yet').waitFor();
  });

  test('what is deleted stays deleted when the page is closed at once', async () => {
    const id = await make({ title: 'Closed at once' });
    const page = await site.open(`/acme/tasks?task=${id}`);
    await page.getByRole('button', { name: 'Delete task' }).click();
    await page.getByText('Task deleted.').waitFor();
    await page.goto('about:blank');
    const found = async () =>
      (await site.client.listWorkspaceTasks({ params: { workspace_id } })).tasks.some((task) => task.id === id);
    await expect.poll(found).toBe(false);
  });

  test('tasks of others appear live, hostile text is text, and filters are in the address', async () => {
    await make({ title: 'There before', project: 'one' });
    const page = await site.open('/acme/tasks');
    await page.getByRole('link', { name: 'There before' }).first().waitFor();
    await page.getByRole('status').getByText('Live').waitFor();
    await make({ title: HOSTILE, description: HOSTILE, project: 'two', priority: 'urgent' });
    await page.getByText(HOSTILE).first().waitFor();
    expect(await page.locator('main img').count()).toBe(0);
    await page.getByLabel('Project').fill('two');
    await page.getByText('There before').first().waitFor({ state: 'detached' });
    await page.getByRole('link', { name: 'List' }).click();
    await page.getByRole('table').getByText(HOSTILE).first().waitFor();
    await page.reload();
    await page.getByRole('table').getByText(HOSTILE).first().waitFor();
    expect(Object.fromEntries(new URL(page.url()).searchParams)).toEqual({ view: 'list', project: 'two' });
    expect(await page.getByRole('table').getByText('There before').count()).toBe(0);
  });

  test.each([
    ['the board', '', 'link'],
    ['the list', '?view=list', 'table'],
    ['the dialog', '?task=new', 'dialog'],
  ] as const)('%s can be used by everybody', async (_, query, role) => {
    await make({ title: 'Late', due_date: '2020-01-01', priority: 'high', project: 'reports' });
    const page = await site.open(`/acme/tasks${query}`);
    const ready = () =>
      role === 'dialog' ? page.getByRole('dialog').waitFor() : page.locator('main').getByRole(role).nth(0).waitFor();
    await checkAccess(page, ready);
  });
});
