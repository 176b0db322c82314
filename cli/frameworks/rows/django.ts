import type { Framework } from '../framework.ts';
import { declares } from '../python-program.ts';
import { webService } from '../web-service.ts';

export const django: Framework = {
  name: 'django',
  title: 'Django',
  language: 'python',
  packages: ['django'],
  example: 'there must be a manage.py, as `django-admin startproject` writes it.',
  entriesIn: (project) =>
    project.sources
      .filter(({ path, text }) => /(?:^|\/)manage\.py$/.test(path) && /DJANGO_SETTINGS_MODULE/.test(text))
      .map(({ path }) => ({ file: path })),
  adapt(project, { file }) {
    const folder = file.replace(/\/?manage\.py$/, '');
    const settings = /DJANGO_SETTINGS_MODULE["'],\s*["']([\w.]+)["']/.exec(project.textOf(file) ?? '')?.[1];
    const wsgi = `${settings?.replace(/\.settings.*$/, '') ?? 'config'}.wsgi:application`;
    const serve = declares(project, 'gunicorn')
      ? `python3 -m gunicorn --bind 0.0.0.0:$PORT ${wsgi}`
      : 'python3 manage.py runserver --noreload 0.0.0.0:$PORT';
    return webService(project, {
      language: 'python',
      command: `${folder === '' ? '' : `cd ${folder} && `}python3 manage.py migrate --noinput && exec ${serve}`,
      notes: [
        'Files of a service, such as db.sqlite3, are lost when its instance ends.',
        'ALLOWED_HOSTS must hold the host of the service, such as ".localhost" on this machine.',
      ],
    });
  },
};
